#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "pictures/drawing.h"

namespace rapt::pictures {

// One named line: y over x. NaN leaves a gap.
struct Series {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
};

// The style of the n-th series: a colour-blind safe colour, and a dash and a marker for greyscale.
struct Look {
  Color color = Role::ink;
  Dashes dashes = {};
  std::size_t marker = 0;
};

Look look_of(std::size_t n);

// Circle, square, triangle, diamond, inverted triangle, cross: filled, with an edge in the page's colour.
Item marker(const std::string& kind, Point at, double radius, const Look& look, std::string tip = {});

}  // namespace rapt::pictures
