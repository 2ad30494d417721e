#include "pictures/picture_file.h"

#include "pictures/png.h"
#include "rapt/error.h"
#include "tensor/files.h"

namespace rapt::pictures {

PictureFormat picture_format(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".svg") return PictureFormat::svg;
  if (ending == ".png") return PictureFormat::png;
  throw Error("picture: got the name '" + path.string() + "'; takes one that ends in .svg or .png");
}

std::string encode_picture(const Drawing& drawing, PictureFormat format, const PictureOptions& options) {
  return format == PictureFormat::svg ? to_svg(drawing, options.theme) : to_png(drawing, options.theme, options.scale);
}

void write_picture(const Drawing& drawing, const std::filesystem::path& path, const PictureOptions& options) {
  write_file(path, encode_picture(drawing, picture_format(path), options));
}

}  // namespace rapt::pictures
