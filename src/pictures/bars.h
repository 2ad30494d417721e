#pragma once

#include <string>
#include <vector>

#include "pictures/drawing.h"
#include "pictures/number_format.h"

namespace rapt::pictures {

struct BarSeries {
  std::string name;
  std::vector<double> values;  // one for each group; NaN: none
};

// Groups of horizontal bars, one group below the other, each bar labelled with its number.
struct Bars {
  std::string title;
  std::string value_title;
  std::vector<std::string> groups;
  std::vector<BarSeries> series;
  std::string group_title = {};
  double width = 0;  // of the whole drawing; 0: as wide as its content
};

Drawing draw(const Bars& bars);

// The format of the bars' numbers.
NumberFormat bar_numbers(const Bars& bars);

}  // namespace rapt::pictures
