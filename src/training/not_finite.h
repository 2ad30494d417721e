#pragma once

#include <cmath>
#include <span>
#include <string>

#include "rapt/error.h"

namespace rapt::inline v1::training {

// Thrown if a loss, a score or a weight is not finite. The request itself was valid, so the command line ends with
// another status than for bad input.
class NotFinite : public Error {
 public:
  using Error::Error;
};

// "nan", whose sign means nothing, "infinity" or "-infinity".
inline std::string name_of_not_finite(double x) { return x > 0 ? "infinity" : x < 0 ? "-infinity" : "nan"; }

// Even finite weights may overflow in a model, which then has no answer worth showing. Throws NotFinite.
inline void require_finite(const std::string& where, std::span<const float> numbers) {
  for (const float x : numbers)
    if (!std::isfinite(x))
      throw NotFinite(where + ": expected numbers from the model, got " + name_of_not_finite(static_cast<double>(x)));
}

}  // namespace rapt::inline v1::training
