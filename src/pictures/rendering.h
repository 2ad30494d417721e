#pragma once

#include "pictures/drawing.h"
#include "pictures/libraries.h"

// Shared by PNG and PDF: the drawing's SVG on a Cairo surface, through librsvg.
namespace rapt::pictures {

// Fills a surface of that size with the drawing; Theme::automatic is light here. Errors begin with `what`.
void render(const Drawing& drawing, Theme theme, bool seamless, const Surface& surface, double width, double height,
            const char* what);

}  // namespace rapt::pictures
