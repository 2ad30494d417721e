// expected: rapt: formula: expected a public
#include "rapt/custom.h"

struct Wrong {
  std::string_view formula = "a formula";
};

rapt::Score score = rapt::custom(Wrong{});
