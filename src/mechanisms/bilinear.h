#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

struct Bilinear {
  static constexpr std::string_view formula = "q W k";
  static constexpr std::array parameters{
      ParameterSpec{.name = "W", .role = Role::query_map, .sizes = {kQueryDim, kKeyDim}},
  };
};

}  // namespace rapt::mechanisms
