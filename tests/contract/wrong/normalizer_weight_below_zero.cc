// expected: rapt: normaliser: weight: expected 0 for x up to 0
#include "normalizers/contract.h"

namespace rapt {

struct Wrong {
  static constexpr std::string_view formula = "max(score − τ, 0)";
  static constexpr Threshold threshold = Threshold::solved;
  static constexpr double reach = 1;

  template <class N, class P>
  constexpr N weight(N x, const P&) const {
    return x;
  }
};

static_assert(detail::check_normalizer<Wrong>());

}  // namespace rapt
