#pragma once

#include <cairo-pdf.h>
#include <fontconfig/fontconfig.h>
#include <librsvg/rsvg.h>

#include <memory>

// Cairo, librsvg, GLib and fontconfig, loaded with the first picture: they bring forty libraries, for which a program
// that draws nothing should not wait.
#define RAPT_PICTURE_FUNCTIONS(X)        \
  X(cairo_create)                        \
  X(cairo_destroy)                       \
  X(cairo_image_surface_create)          \
  X(cairo_image_surface_get_data)        \
  X(cairo_image_surface_get_stride)      \
  X(cairo_paint)                         \
  X(cairo_pdf_surface_create_for_stream) \
  X(cairo_pdf_surface_set_metadata)      \
  X(cairo_set_source_rgb)                \
  X(cairo_status)                        \
  X(cairo_status_to_string)              \
  X(cairo_surface_destroy)               \
  X(cairo_surface_finish)                \
  X(cairo_surface_flush)                 \
  X(cairo_surface_mark_dirty)            \
  X(cairo_surface_status)                \
  X(cairo_surface_write_to_png_stream)   \
  X(g_error_free)                        \
  X(g_memory_input_stream_new_from_data) \
  X(g_object_unref)                      \
  X(rsvg_handle_new_from_stream_sync)    \
  X(rsvg_handle_render_document)         \
  X(FcCharSetHasChar)                    \
  X(FcConfigGetFonts)                    \
  X(FcPatternGetCharSet)

namespace rapt::pictures {

struct Libraries {
#define RAPT_MEMBER(name) decltype(&::name) name;
  RAPT_PICTURE_FUNCTIONS(RAPT_MEMBER)
#undef RAPT_MEMBER
};

// Throws rapt::Error if one is missing.
const Libraries& libraries();

// A pointer freed by one of their functions.
template <auto function>
struct Call {
  template <class T>
  void operator()(T* p) const {
    (libraries().*function)(p);
  }
};
template <class T, auto function>
using Owned = std::unique_ptr<T, Call<function>>;
using Surface = Owned<cairo_surface_t, &Libraries::cairo_surface_destroy>;

}  // namespace rapt::pictures
