#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

// Differences are squared one by one: ‖q‖² + ‖k‖² − 2 q·k would lose small distances between large vectors.
struct Distance {
  static constexpr std::string_view formula = "−γ ‖q−k‖²";
  static constexpr std::array parameters{ParameterSpec{.name = "gamma", .fresh = {.value = 0.2}}};
  static constexpr bool of_difference = true;

  template <class N>
  constexpr N pair(N q, N k, N) const {
    const N difference = q - k;
    return difference * difference;
  }
  template <class N>
  constexpr N add_pair(N sum, N q, N k, N) const {
    const N difference = q - k;
    return mul_add(difference, difference, sum);
  }

  template <class N, class P, class At>
  constexpr N score(N raw, const P& p, const At& at) const {
    return -p[0] * (raw * at.scale);
  }
};

}  // namespace rapt::mechanisms
