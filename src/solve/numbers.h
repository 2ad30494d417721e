#pragma once

#include <span>
#include <string>

namespace rapt::solve {

// The common format of a table's numbers, so that they align.
struct NumberFormat {
  bool scientific = false;
  int decimals = 8;
  double small = 0;  // nonzero numbers below it are written in powers of ten
  int small_decimals = 8;

  std::string text(double x) const;
  std::string latex(double x) const;
};

// Fixed point with the digits that the numbers need, up to `decimals`; powers of ten for numbers that it would lose, or
// for all if most are so small. `small_counts`: numbers far below the largest are results, as in weights.
NumberFormat choose_format(std::span<const double> numbers, int decimals, bool small_counts);

// A single number, without trailing zeros.
std::string plain_number(double x, int decimals, bool small_counts);

// The width of a UTF-8 text in columns of a terminal, for the symbols used here.
std::size_t width_of(const std::string& text);
std::string pad_left(const std::string& text, std::size_t width);
std::string pad_right(const std::string& text, std::size_t width);

}  // namespace rapt::solve
