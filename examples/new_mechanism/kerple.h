#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

// A penalty that grows with the logarithm of the distance, its height and its rate learned by every head.
// (T.-C. Chi and others, "KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation", 2022.)
struct Kerple {
  static constexpr std::string_view formula = "q·k/√Dk − a·log(1 + b·|i−j|)";
  static constexpr bool scaled = true;
  static constexpr std::array parameters{
      ParameterSpec{.name = "a", .heads = Heads::required},
      ParameterSpec{.name = "b", .heads = Heads::required},
  };

  template <class N, class P, class At>
  constexpr N score(N raw, const P& p, const At& at) const {
    return raw * at.scale - p[0] * log(p[1] * abs(at.offset()) + 1);
  }
};

}  // namespace rapt::mechanisms
