#pragma once

#include <cmath>
#include <span>
#include <string>

#include "rapt/error.h"

namespace rapt::inline v1::training {

// Thrown where a loss, a score or a weight is no finite number: nothing is wrong with what was asked, so the command
// line ends with another status than for bad input.
class NotFinite : public Error {
 public:
  using Error::Error;
};

// "nan", which has no sign that means anything, "infinity" or "-infinity".
inline std::string name_of_not_finite(double x) { return x > 0 ? "infinity" : x < 0 ? "-infinity" : "nan"; }

// What a model computes from finite weights may still overflow: it has no answer worth showing. Throws NotFinite.
inline void require_finite(const std::string& where, std::span<const float> numbers) {
  for (const float x : numbers)
    if (!std::isfinite(x))
      throw NotFinite(where + ": expected numbers from the model, got " + name_of_not_finite(static_cast<double>(x)));
}

}  // namespace rapt::inline v1::training
