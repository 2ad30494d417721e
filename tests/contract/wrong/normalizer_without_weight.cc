// expected: rapt: normaliser: weight: expected `template
#include "normalizers/contract.h"

namespace rapt {

struct Wrong {
  static constexpr std::string_view formula = "max(score − τ, 0)";
  static constexpr Threshold threshold = Threshold::solved;
  static constexpr double reach = 1;
};

static_assert(detail::check_normalizer<Wrong>());

}  // namespace rapt
