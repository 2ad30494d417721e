#pragma once

#include <string>
#include <vector>

#include "pictures/drawing.h"
#include "pictures/series.h"

namespace rapt::pictures {

// Several named lines over one axis: losses, accuracies.
struct Curves {
  std::string title;
  std::string x_title;
  std::string y_title;  // empty: the name, where there is one series
  std::vector<Series> series;
  bool log_x = false;
  bool log_y = false;
  double width = 0;  // of the whole drawing; 0: as wide as its content
};

// Throws rapt::Error if there is nothing finite to draw, or if x and y differ in length.
Drawing draw(const Curves& curves);

}  // namespace rapt::pictures
