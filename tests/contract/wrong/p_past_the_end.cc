// expected: rapt: p[n]: n is past the numbers of the declared parameters
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array parameters{rapt::ParameterSpec{.name = "m"}};
  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    return raw * at.scale + p[1];
  }
};

rapt::Score score = rapt::custom(Wrong{});
