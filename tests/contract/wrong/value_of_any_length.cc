// expected: rapt: parameters: expected fixed sizes where the role is value
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array parameters{rapt::ParameterSpec{.name = "m", .sizes = {rapt::kAny}}};
  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    return raw * at.scale + p[0];
  }
};

rapt::Score score = rapt::custom(Wrong{});
