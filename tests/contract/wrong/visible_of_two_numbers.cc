// expected: rapt: visible: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  bool visible(long i, long j) const { return j <= i; }
};

rapt::Score score = rapt::custom(Wrong{});
