// expected: rapt: scores: the engine does not call this name; did you mean score?
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class N, class P, class At>
  N scores(N raw, const P&, const At&) const {
    return raw;
  }
};

rapt::Score score = rapt::custom(Wrong{});
