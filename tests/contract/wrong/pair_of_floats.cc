// expected: rapt: pair: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  float pair(float q, float k, float w) const { return q * k * w; }
};

rapt::Score score = rapt::custom(Wrong{});
