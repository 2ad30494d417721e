#pragma once

#include <span>
#include <string>

namespace rapt::solve {

// How the numbers of one table are written, so that they line up.
struct NumberFormat {
  bool scientific = false;
  int decimals = 8;
  double small = 0;  // numbers below it, 0 left out, are written in powers of ten
  int small_decimals = 8;

  std::string text(double x) const;
  std::string latex(double x) const;
};

// Fixed point with the digits that the numbers need, up to `decimals`; powers of ten where fixed point would lose them:
// for those numbers alone, or for all where most are so small.
// `small_counts`: a number far below the largest is no rounding error but a result, as in weights.
NumberFormat choose_format(std::span<const double> numbers, int decimals, bool small_counts);

// One number by itself, without zeros at its end.
std::string plain_number(double x, int decimals, bool small_counts);

// How many columns of a terminal a UTF-8 text takes, for the signs that are used here.
std::size_t width_of(const std::string& text);
std::string pad_left(const std::string& text, std::size_t width);
std::string pad_right(const std::string& text, std::size_t width);

}  // namespace rapt::solve
