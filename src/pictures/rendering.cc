#include "pictures/rendering.h"

#include <map>
#include <string>

#include "pictures/text.h"
#include "rapt/error.h"

#ifdef __SANITIZE_ADDRESS__
// fontconfig keeps its cache until the process ends; the leak checker cannot see that.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions() { return "leak:libfontconfig"; }
#endif

namespace rapt::pictures {
namespace {

std::string message_of(GError* error) {
  const Owned<GError, &Libraries::g_error_free> owner(error);
  return error ? error->message : "unknown error";
}

// Whether any installed font has the character.
bool has_glyph(char32_t code) {
  const FcFontSet* const fonts = libraries().FcConfigGetFonts(nullptr, FcSetSystem);
  if (fonts == nullptr) return true;
  for (int n = 0; n < fonts->nfont; ++n) {
    FcCharSet* characters = nullptr;
    if (libraries().FcPatternGetCharSet(fonts->fonts[n], FC_CHARSET, 0, &characters) == FcResultMatch &&
        libraries().FcCharSetHasChar(characters, static_cast<FcChar32>(code)))
      return true;
  }
  return false;
}

// A character without a glyph would be drawn wider than measured, over its neighbour.
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

void render(const Drawing& drawing, Theme theme, bool seamless, const Surface& surface, double width, double height,
            const char* what) {
  const auto fail = [&](const std::string& why) { throw Error(std::string(what) + ": " + why); };
  const bool dark = theme == Theme::dark;
  const std::string svg =
      with_glyphs_only(to_svg(drawing, {.theme = dark ? Theme::dark : Theme::light, .seamless = seamless}));
  const Owned<GInputStream, &Libraries::g_object_unref> stream(
      libraries().g_memory_input_stream_new_from_data(svg.data(), static_cast<gssize>(svg.size()), nullptr));
  GError* error = nullptr;
  // An embedded image is a long attribute, which the parser allows only for trusted text.
  const Owned<RsvgHandle, &Libraries::g_object_unref> handle(
      libraries().rsvg_handle_new_from_stream_sync(stream.get(), nullptr, RSVG_HANDLE_FLAG_UNLIMITED, nullptr, &error));
  if (!handle) fail(message_of(error));
  const Owned<cairo_t, &Libraries::cairo_destroy> context(libraries().cairo_create(surface.get()));
  const RsvgRectangle viewport{0, 0, width, height};
  // A fractional size leaves part of the last pixels bare.
  const Rgb page = theme_color(Role::page, dark);
  libraries().cairo_set_source_rgb(context.get(), page.red / 255.0, page.green / 255.0, page.blue / 255.0);
  libraries().cairo_paint(context.get());
  if (!libraries().rsvg_handle_render_document(handle.get(), context.get(), &viewport, &error)) fail(message_of(error));
  if (libraries().cairo_status(context.get()) != CAIRO_STATUS_SUCCESS)
    fail(libraries().cairo_status_to_string(libraries().cairo_status(context.get())));
}

}  // namespace rapt::pictures
