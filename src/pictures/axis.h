#pragma once

#include <span>
#include <string>
#include <vector>

namespace rapt::pictures {

// From numbers to positions on the page.
struct Scale {
  double low = 0;
  double high = 1;
  bool log = false;
  double from = 0;  // the position of low
  double to = 1;
  double at(double value) const;
};

struct Tick {
  double value = 0;
  std::string text;  // empty: a line without a label
};

// Round numbers between low and high, at most `most`.
std::vector<Tick> linear_ticks(double low, double high, int most);

// Powers of ten, with 2 and 5 between them where there are few; `low` is above 0.
std::vector<Tick> log_ticks(double low, double high, int most);

// As many ticks as fit into `length` pixels without touching labels; `across`: labels run along the axis.
std::vector<Tick> fitting_ticks(const Scale& scale, double length, double font_size, bool across);

// The range of the finite numbers with a margin at both ends, extended to 0 if that is near. On a log axis only numbers
// above 0 count. {0, 1} for none.
Scale scale_of(std::span<const double> values, bool log);

// A number on an axis: 0.5, 1500, 10⁻⁶.
std::string axis_number(double value);

}  // namespace rapt::pictures
