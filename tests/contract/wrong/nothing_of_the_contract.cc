// expected: rapt: formula: expected a public
#include "rapt/custom.h"

struct Wrong {
  float temperature = 1;
};

rapt::Score score = rapt::custom(Wrong{});
