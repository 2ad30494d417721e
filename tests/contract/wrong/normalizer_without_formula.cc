// expected: rapt: normaliser: formula: expected
#include "normalizers/contract.h"

namespace rapt {

struct Wrong {
  static constexpr Threshold threshold = Threshold::solved;
  static constexpr double reach = 1;

  template <class N, class P>
  constexpr N weight(N x, const P&) const {
    return max(x, N(0));
  }
};

static_assert(detail::check_normalizer<Wrong>());

}  // namespace rapt
