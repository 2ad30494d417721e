#include "pictures/picture_file.h"

#include "pictures/pdf.h"
#include "pictures/png.h"
#include "rapt/error.h"
#include "tensor/files.h"

namespace rapt::pictures {

std::optional<PictureFormat> format_of_name(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".svg") return PictureFormat::svg;
  if (ending == ".png") return PictureFormat::png;
  if (ending == ".pdf") return PictureFormat::pdf;
  return std::nullopt;
}

PictureFormat picture_format(const std::filesystem::path& path) {
  if (const std::optional<PictureFormat> format = format_of_name(path)) return *format;
  throw Error("picture: expected a name that ends in .svg, .png or .pdf, got '" + path.string() + "'");
}

std::string encode_picture(const Drawing& drawing, PictureFormat format, const PictureOptions& options) {
  const double unit = options.unit > 0 ? options.unit : 1;
  switch (format) {
    case PictureFormat::svg: return to_svg(drawing, SvgOptions{.theme = options.theme, .unit = options.unit});
    case PictureFormat::png: return to_png(drawing, options.theme, options.scale * unit, 96 * options.scale);
    case PictureFormat::pdf: return to_pdf(drawing, options.theme, unit);
  }
  throw Error("picture: expected SVG, PNG or PDF, got another format");
}

void write_picture(const Drawing& drawing, const std::filesystem::path& path, const PictureOptions& options) {
  write_file(path, encode_picture(drawing, picture_format(path), options));
}

}  // namespace rapt::pictures
