// expected: rapt: parameters: expected at most 8 numbers
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array parameters{rapt::ParameterSpec{.name = "m", .sizes = {3, 3}}};
  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    return raw * at.scale + p[0];
  }
};

rapt::Score score = rapt::custom(Wrong{});
