// expected: rapt: normaliser: weight: expected 1 for x = reach
#include "normalizers/contract.h"

namespace rapt {

struct Wrong {
  static constexpr std::string_view formula = "max(score − τ, 0)";
  static constexpr Threshold threshold = Threshold::solved;
  static constexpr double reach = 2;

  template <class N, class P>
  constexpr N weight(N x, const P&) const {
    return max(x, N(0));
  }
};

static_assert(detail::check_normalizer<Wrong>());

}  // namespace rapt
