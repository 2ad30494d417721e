// expected: rapt: of_difference: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr bool of_difference = true;
};

rapt::Score score = rapt::custom(Wrong{});
