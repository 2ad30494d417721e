#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pictures/drawing.h"

namespace rapt::pictures {

// Where each head looks, seen from the query pixel at the origin: a point at its centre, ellipses that hold 50 % and 90
// % of its weight, and the path of the centre from the first epoch to the last. One panel per layer.
struct HeadCenters {
  std::string title;
  std::int64_t epochs = 1;
  std::int64_t first_epoch = 1;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::vector<double> centers;           // [epochs, layers, heads, 2]: rows down, columns right
  std::vector<double> covariances = {};  // [epochs, layers, heads, 2, 2] in the same order, or none
  std::string x_title = "columns from the query";
  std::string y_title = "rows from the query";
  double width = 0;  // of the whole drawing; 0: as wide as its content
};

Drawing draw(const HeadCenters& centers);

}  // namespace rapt::pictures
