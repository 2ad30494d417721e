#include "pictures/png.h"

#include <fontconfig/fontconfig.h>
#include <librsvg/rsvg.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <new>

#include "pictures/text.h"
#include "rapt/error.h"

#ifdef __SANITIZE_ADDRESS__
// fontconfig keeps what it knows of fonts until the process ends, out of the leak checker's sight.
extern "C" const char* __lsan_default_suppressions() { return "leak:libfontconfig"; }
#endif

namespace rapt::pictures {
namespace {

// A side that no surface can have.
constexpr double kMaxPixels = 32767;

template <auto function>
struct Call {
  template <class T>
  void operator()(T* p) const {
    function(p);
  }
};
template <class T, auto function>
using Owned = std::unique_ptr<T, Call<function>>;
using Surface = Owned<cairo_surface_t, cairo_surface_destroy>;

[[noreturn]] void fail(const std::string& why) { throw Error("png: " + why); }

Surface make_surface(std::int64_t rows, std::int64_t cols) {
  if (rows < 1 || cols < 1 || static_cast<double>(std::max(rows, cols)) > kMaxPixels)
    fail("got " + std::to_string(cols) + " × " + std::to_string(rows) + " pixels; takes 1 to " + number(kMaxPixels, 0) +
         " each way");
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(cols), static_cast<int>(rows)));
  if (cairo_surface_status(surface.get()) != CAIRO_STATUS_SUCCESS) throw std::bad_alloc();
  return surface;
}

std::string encode(const Surface& surface) {
  std::string bytes;
  // An exception must not pass through the library's code.
  const auto append = [](void* target, const unsigned char* data, unsigned length) {
    try {
      static_cast<std::string*>(target)->append(reinterpret_cast<const char*>(data), length);
      return CAIRO_STATUS_SUCCESS;
    } catch (...) {
      return CAIRO_STATUS_NO_MEMORY;
    }
  };
  const cairo_status_t status = cairo_surface_write_to_png_stream(surface.get(), append, &bytes);
  if (status == CAIRO_STATUS_NO_MEMORY) throw std::bad_alloc();
  if (status != CAIRO_STATUS_SUCCESS) fail(cairo_status_to_string(status));
  return bytes;
}

std::string message_of(GError* error) {
  const Owned<GError, g_error_free> owner(error);
  return error ? error->message : "unknown error";
}

// Whether any font of this machine has the character.
bool has_glyph(char32_t code) {
  const FcFontSet* const fonts = FcConfigGetFonts(nullptr, FcSetSystem);
  if (fonts == nullptr) return true;
  for (int n = 0; n < fonts->nfont; ++n) {
    FcCharSet* characters = nullptr;
    if (FcPatternGetCharSet(fonts->fonts[n], FC_CHARSET, 0, &characters) == FcResultMatch &&
        FcCharSetHasChar(characters, static_cast<FcChar32>(code)))
      return true;
  }
  return false;
}

// A character without a glyph would be drawn wider than it is measured, over what stands beside it.
std::string with_glyphs_only(const std::string& svg) {
  std::map<char32_t, bool> known;
  std::string result;
  each_code(svg, [&](char32_t code, std::string_view bytes) {
    if (code < 0x80) {
      result += bytes;
      return;
    }
    const auto [place, is_new] = known.try_emplace(code, true);
    if (is_new) place->second = is_combining(code) || has_glyph(code);
    if (place->second) result += bytes;
    else result += "▯";
  });
  return result;
}

}  // namespace

std::string to_png(const Drawing& drawing, Theme theme, double scale) {
  const double width = std::ceil(drawing.width * scale), height = std::ceil(drawing.height * scale);
  if (!(scale > 0) || !(width <= kMaxPixels) || !(height <= kMaxPixels))
    fail("got " + number(drawing.width) + " × " + number(drawing.height) + " at scale " + number(scale) +
         "; takes up to " + number(kMaxPixels, 0) + " pixels each way");
  const std::string svg = with_glyphs_only(to_svg(drawing, theme == Theme::dark ? Theme::dark : Theme::light));
  const Owned<GInputStream, g_object_unref> stream(
      g_memory_input_stream_new_from_data(svg.data(), static_cast<gssize>(svg.size()), nullptr));
  GError* error = nullptr;
  // An embedded image is a long attribute; the text is our own.
  const Owned<RsvgHandle, g_object_unref> handle(
      rsvg_handle_new_from_stream_sync(stream.get(), nullptr, RSVG_HANDLE_FLAG_UNLIMITED, nullptr, &error));
  if (!handle) fail(message_of(error));
  const Surface surface = make_surface(static_cast<std::int64_t>(height), static_cast<std::int64_t>(width));
  const Owned<cairo_t, cairo_destroy> context(cairo_create(surface.get()));
  const RsvgRectangle viewport{0, 0, drawing.width * scale, drawing.height * scale};
  // A size that is no whole number leaves part of the last pixels bare.
  const Rgb page = theme_color(Role::page, theme == Theme::dark);
  cairo_set_source_rgb(context.get(), page.red / 255.0, page.green / 255.0, page.blue / 255.0);
  cairo_paint(context.get());
  if (!rsvg_handle_render_document(handle.get(), context.get(), &viewport, &error)) fail(message_of(error));
  cairo_surface_flush(surface.get());
  return encode(surface);
}

std::string encode_png(std::int64_t rows, std::int64_t cols, std::span<const Rgb> colors, std::int64_t down,
                       std::int64_t across) {
  const Surface surface = make_surface(rows * down, cols * across);
  if (static_cast<std::int64_t>(colors.size()) != rows * cols) fail("the colours do not fill the rows");
  cairo_surface_flush(surface.get());
  unsigned char* const data = cairo_image_surface_get_data(surface.get());
  const std::int64_t stride = cairo_image_surface_get_stride(surface.get());
  for (std::int64_t i = 0; i < rows * down; ++i) {
    auto* const row = reinterpret_cast<std::uint32_t*>(data + i * stride);
    for (std::int64_t j = 0; j < cols * across; ++j) {
      const Rgb c = colors[static_cast<std::size_t>(i / down * cols + j / across)];
      row[j] = std::uint32_t{c.red} << 16 | std::uint32_t{c.green} << 8 | c.blue;
    }
  }
  cairo_surface_mark_dirty(surface.get());
  return encode(surface);
}

}  // namespace rapt::pictures
