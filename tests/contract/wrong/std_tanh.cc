// expected: rapt: functions of std do not take the numbers of hooks: write tanh(x)
#include <cmath>

#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class N, class P, class At>
  N score(N raw, const P&, const At&) const {
    return N(std::tanh(raw));
  }
};

rapt::Score score = rapt::custom(Wrong{});
