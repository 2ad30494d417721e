#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "pictures/color.h"
#include "pictures/drawing.h"

namespace rapt::pictures {

// The drawing's SVG as pixels, `scale` of them per unit of the drawing; Theme::automatic is light here. `dpi` is
// written into the file: documents take the picture's size from it.
std::string to_png(const Drawing& drawing, Theme theme = Theme::light, double scale = 2, double dpi = 192);

// The colours row by row, each as a block of pixels.
std::string encode_png(std::int64_t rows, std::int64_t cols, std::span<const Rgb> colors, std::int64_t down = 1,
                       std::int64_t across = 1);

}  // namespace rapt::pictures
