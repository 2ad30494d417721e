// expected: rapt: score: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class N, class P, class At>
  auto score(N raw, const P&, const At&) const {
    return raw < 0;
  }
};

rapt::Score score = rapt::custom(Wrong{});
