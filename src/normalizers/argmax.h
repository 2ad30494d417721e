#pragma once

#include "normalizers/contract.h"

namespace rapt::normalizers {

struct Argmax {
  static constexpr std::string_view formula = "1 on the first largest score, 0 elsewhere";
  static constexpr Threshold threshold = Threshold::first_largest;
};

}  // namespace rapt::normalizers
