#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pictures/drawing.h"

namespace rapt::pictures {

// Source tokens on the left, target tokens on the right, a line between two for the weight that the target gives to the
// source: the heavier, the darker.
struct Alignment {
  std::string title;
  std::vector<std::string> source;
  std::vector<std::string> target;
  std::vector<double> weights;  // [target, source], 0 or more
  double width = 0;             // of the whole drawing; 0: what its content needs
};

Drawing draw(const Alignment& alignment);

}  // namespace rapt::pictures
