// expected: rapt: pair: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class N>
  N pair(N q, N k, N w) {
    return q * k * w;
  }
};

rapt::Score score = rapt::custom(Wrong{});
