#pragma once

#include <string>

#include "pictures/drawing.h"

namespace rapt::pictures {

// The drawing's SVG as one page of its size: lines as lines, text as text with its fonts. One unit of the drawing is so
// many 96ths of an inch. The same drawing gives the same bytes: no date is written.
std::string to_pdf(const Drawing& drawing, Theme theme = Theme::light, double unit = 1);

}  // namespace rapt::pictures
