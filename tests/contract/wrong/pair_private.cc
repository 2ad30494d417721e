// expected: rapt: pair: expected a public
#include "rapt/custom.h"

class Wrong {
 public:
  static constexpr std::string_view formula = "a formula";

 private:
  template <class N>
  N pair(N q, N k, N w) const {
    return q * k * w;
  }
};

rapt::Score score = rapt::custom(Wrong{});
