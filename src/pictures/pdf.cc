#include "pictures/pdf.h"

#include <new>

#include "pictures/rendering.h"
#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

constexpr double kPoint = 72.0 / 96;
constexpr double kMostPoints = 14400;  // what PDF's own units allow a page

// An exception must not pass through the library's code.
cairo_status_t append_bytes(void* target, const unsigned char* data, unsigned length) {
  try {
    static_cast<std::string*>(target)->append(reinterpret_cast<const char*>(data), length);
    return CAIRO_STATUS_SUCCESS;
  } catch (...) {
    return CAIRO_STATUS_NO_MEMORY;
  }
}

}  // namespace

std::string to_pdf(const Drawing& drawing, Theme theme, double unit) {
  const double width = drawing.width * unit * kPoint, height = drawing.height * unit * kPoint;
  if (!(width > 0 && width <= kMostPoints && height > 0 && height <= kMostPoints))
    throw Error("pdf: expected up to " + number(kMostPoints, 0) + " points each way, got " + number(width) + " × " +
                number(height));
  std::string bytes;
  {
    const Surface surface(libraries().cairo_pdf_surface_create_for_stream(append_bytes, &bytes, width, height));
    const auto say = [&](cairo_pdf_metadata_t field, const std::string& text) {
      if (!text.empty() && is_utf8(text))
        libraries().cairo_pdf_surface_set_metadata(surface.get(), field, text.c_str());
    };
    say(CAIRO_PDF_METADATA_TITLE, drawing.title);
    say(CAIRO_PDF_METADATA_SUBJECT, drawing.description);
    say(CAIRO_PDF_METADATA_CREATOR, "Rapt");
    libraries().cairo_pdf_surface_set_metadata(surface.get(), CAIRO_PDF_METADATA_CREATE_DATE, nullptr);
    render(drawing, theme, true, surface, width, height, "pdf");
    libraries().cairo_surface_finish(surface.get());
    const cairo_status_t status = libraries().cairo_surface_status(surface.get());
    if (status == CAIRO_STATUS_NO_MEMORY) throw std::bad_alloc();
    if (status != CAIRO_STATUS_SUCCESS) throw Error(std::string("pdf: ") + libraries().cairo_status_to_string(status));
  }
  return bytes;
}

}  // namespace rapt::pictures
