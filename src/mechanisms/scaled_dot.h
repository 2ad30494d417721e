#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

struct ScaledDot {
  static constexpr std::string_view formula = "q·k / √Dk";
  static constexpr bool scaled = true;
};

}  // namespace rapt::mechanisms
