#pragma once

#include <cmath>

#include "normalizers/contract.h"

namespace rapt::normalizers {

struct Sigmoid {
  static constexpr std::string_view formula = "1 / (1 + exp(−(score + b)))";
  static constexpr Threshold threshold = Threshold::none;
  static constexpr std::array parameters{ParameterSpec{.name = "b", .required = false}};

  static double absent(int, std::int64_t keys) { return -std::log(static_cast<double>(keys > 1 ? keys : 1)); }

  template <class N, class P>
  constexpr N weight(N x, const P& p) const {
    // Only exponentials of negative numbers, which cannot overflow; at 0 the slope follows −y.
    const N y = x + p[0];
    const N e = exp(min(-y, y));
    return where(y < N(0), e, N(1)) / (N(1) + e);
  }
};

}  // namespace rapt::normalizers
