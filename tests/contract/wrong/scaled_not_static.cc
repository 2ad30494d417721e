// expected: rapt: scaled: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  bool scaled = true;
};

rapt::Score score = rapt::custom(Wrong{});
