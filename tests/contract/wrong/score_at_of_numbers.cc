// expected: rapt: score: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class N, class P>
  N score(N raw, const P&, const rapt::At<N>&) const {
    return raw;
  }
};

rapt::Score score = rapt::custom(Wrong{});
