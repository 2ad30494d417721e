#pragma once

#include <stdexcept>

#include "rapt/api.h"

namespace rapt::inline v1 {

// Thrown for bad input. The message names the operation and the argument, what was expected and what it got.
class RAPT_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace rapt::inline v1
