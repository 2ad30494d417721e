// expected: rapt: pair: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  float pair = 1;
};

rapt::Score score = rapt::custom(Wrong{});
