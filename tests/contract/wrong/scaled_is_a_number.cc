// expected: rapt: scaled: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr int scaled = 2;
};

rapt::Score score = rapt::custom(Wrong{});
