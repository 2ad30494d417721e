#pragma once

#include <librsvg/rsvg.h>

#include <memory>

#include "pictures/drawing.h"

// What PNG and PDF share: the drawing's SVG on a surface of Cairo's, through librsvg.
namespace rapt::pictures {

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

// Fills a surface of that size with the drawing; Theme::automatic is light here. Errors begin with `what`.
void render(const Drawing& drawing, Theme theme, bool seamless, const Surface& surface, double width, double height,
            const char* what);

}  // namespace rapt::pictures
