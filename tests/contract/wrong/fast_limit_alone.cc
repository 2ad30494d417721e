// expected: rapt: fast path: expected pair, fast_limit
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr double fast_limit = 20;
};

rapt::Score score = rapt::custom(Wrong{});
