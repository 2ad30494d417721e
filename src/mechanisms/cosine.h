#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

// A vector of length zero has no direction: its scores are 0.
struct Cosine {
  static constexpr std::string_view formula = "τ q·k / (‖q‖‖k‖)";
  static constexpr bool unit_rows = true;
  static constexpr std::array parameters{ParameterSpec{.name = "tau", .fresh = {.value = 10}}};

  template <class N, class P, class At>
  constexpr N score(N raw, const P& p, const At& at) const {
    return p[0] * (raw * at.scale);
  }
};

}  // namespace rapt::mechanisms
