// expected: rapt: pairs: the engine does not call this name; did you mean pair?
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class N>
  N pairs(N q, N k, N w) const {
    return q * k * w;
  }
};

rapt::Score score = rapt::custom(Wrong{});
