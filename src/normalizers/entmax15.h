#pragma once

#include "normalizers/contract.h"

namespace rapt::normalizers {

struct Entmax15 {
  static constexpr std::string_view formula = "max((score − τ)/2, 0)², τ so that Σ = 1";
  static constexpr Threshold threshold = Threshold::solved;
  static constexpr double reach = 2;

  template <class N, class P>
  constexpr N weight(N x, const P&) const {
    const N half = max(x, N(0)) * 0.5f;
    return half * half;
  }
};

}  // namespace rapt::normalizers
