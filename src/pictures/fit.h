#pragma once

#include <functional>

#include "pictures/drawing.h"

namespace rapt::pictures {

// A drawing of that width: `make` gets the width of the content, and is called again until labels, legend and content
// fill the drawing. 0: make(content). If no content is narrow enough, the drawing is wider than asked.
Drawing fitted(double width, double content, double least, const std::function<Drawing(double)>& make);

}  // namespace rapt::pictures
