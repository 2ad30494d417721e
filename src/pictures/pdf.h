#pragma once

#include <string>

#include "pictures/drawing.h"

namespace rapt::pictures {

// The drawing's SVG as one page of its size, with vector lines, and text with its fonts. `unit`: 96ths of an inch per
// unit of the drawing. The same drawing gives the same bytes: no date is written.
std::string to_pdf(const Drawing& drawing, Theme theme = Theme::light, double unit = 1);

}  // namespace rapt::pictures
