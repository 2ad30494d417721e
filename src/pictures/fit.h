#pragma once

#include <functional>

#include "pictures/drawing.h"

namespace rapt::pictures {

// A drawing of that width: `make` is given how wide the content may be, and is asked again until labels, legend and
// content fill the width. 0: make(content). Where no content is narrow enough, the drawing is wider than asked.
Drawing fitted(double width, double content, double least, const std::function<Drawing(double)>& make);

}  // namespace rapt::pictures
