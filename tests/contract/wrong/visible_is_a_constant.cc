// expected: rapt: visible: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr bool visible = true;
};

rapt::Score score = rapt::custom(Wrong{});
