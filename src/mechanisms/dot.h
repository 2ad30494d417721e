#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

struct Dot {
  static constexpr std::string_view formula = "q·k";
};

}  // namespace rapt::mechanisms
