#pragma once

#include <span>
#include <string>

namespace rapt::pictures {

// One format for all numbers of a figure: the same number of decimals, or powers of ten.
class NumberFormat {
 public:
  NumberFormat() = default;

  // As many decimals as every number needs for four digits of what was measured: 99.7, 100.0.
  static NumberFormat measured(std::span<const double> values);

  // For cells: as many decimals as the largest needs for two digits: 0.47, 0.03, −1.20. None if all are integers.
  static NumberFormat compact(std::span<const double> values);

  std::string text(double value) const;

 private:
  bool powers_ = false;
  int decimals_ = 0;
};

}  // namespace rapt::pictures
