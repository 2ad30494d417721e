#pragma once

#include "normalizers/contract.h"

namespace rapt::normalizers {

struct Sparsemax {
  static constexpr std::string_view formula = "max(score − τ, 0), τ so that Σ = 1";
  static constexpr Threshold threshold = Threshold::solved;
  static constexpr double reach = 1;

  template <class N, class P>
  constexpr N weight(N x, const P&) const {
    return max(x, N(0));
  }
};

}  // namespace rapt::normalizers
