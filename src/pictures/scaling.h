#pragma once

#include <string>
#include <vector>

#include "pictures/drawing.h"
#include "pictures/series.h"

namespace rapt::pictures {

// How cost grows with size: log-log axes, the slope of each line in the legend, guides of known slope.
struct Scaling {
  std::string title;
  std::string x_title;
  std::string y_title;
  std::vector<Series> series;       // numbers above 0; NaN leaves a gap
  std::vector<double> slopes = {};  // of the guides; empty: the halves nearest to the lines' slopes
  double width = 0;                 // of the whole drawing; 0: as wide as its content
};

Drawing draw(const Scaling& scaling);

// The least-squares slope of log y against log x; NaN for fewer than two different x.
double fitted_slope(const Series& series);

}  // namespace rapt::pictures
