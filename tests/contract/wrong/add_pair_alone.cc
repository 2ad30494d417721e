// expected: rapt: add_pair: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class N>
  constexpr N add_pair(N sum, N q, N k, N) const {
    return mul_add(q, k, sum);
  }
};

rapt::Score score = rapt::custom(Wrong{});
