// expected: rapt: pair: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class N>
  double pair(N, N, N) const {
    return 1;
  }
};

rapt::Score score = rapt::custom(Wrong{});
