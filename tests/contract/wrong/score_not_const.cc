// expected: rapt: score: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class N, class P, class At>
  N score(N raw, const P&, const At&) {
    return raw;
  }
};

rapt::Score score = rapt::custom(Wrong{});
