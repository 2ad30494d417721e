// expected: rapt: score: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class P, class At>
  float score(float raw, const P&, const At&) const {
    return raw;
  }
};

rapt::Score score = rapt::custom(Wrong{});
