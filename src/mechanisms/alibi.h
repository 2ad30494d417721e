#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

struct Alibi {
  static constexpr std::string_view formula = "q·k/√Dk − m·|i−j|";
  static constexpr bool scaled = true;
  static constexpr std::array parameters{
      ParameterSpec{.name = "m", .heads = Heads::required, .fresh = {.value = 0.5, .ratio = 0.5}}};

  template <class N, class P, class At>
  constexpr N score(N raw, const P& p, const At& at) const {
    return raw * at.scale - p[0] * abs(at.offset());
  }
};

}  // namespace rapt::mechanisms
