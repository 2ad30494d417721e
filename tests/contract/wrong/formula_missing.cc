// expected: rapt: formula: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr bool scaled = true;
};

rapt::Score score = rapt::custom(Wrong{});
