// expected: rapt: settings: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array settings{1.0, 2.0};
};

rapt::Score score = rapt::custom(Wrong{});
