#pragma once

#include "rapt/error.h"

namespace rapt::inline v1::training {

// Thrown where a loss, a score or a weight is no finite number: nothing is wrong with what was asked, so the command
// line ends with another status than for bad input.
class NotFinite : public Error {
 public:
  using Error::Error;
};

}  // namespace rapt::inline v1::training
