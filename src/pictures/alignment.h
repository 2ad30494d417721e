#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pictures/drawing.h"

namespace rapt::pictures {

// Source tokens on the left, target tokens on the right, and a line for each weight: the heavier, the darker.
struct Alignment {
  std::string title;
  std::vector<std::string> source;
  std::vector<std::string> target;
  std::vector<double> weights;  // [target, source], 0 or more
  double width = 0;             // of the whole drawing; 0: as wide as its content
};

Drawing draw(const Alignment& alignment);

}  // namespace rapt::pictures
