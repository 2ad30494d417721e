// expected: rapt: parameters and settings: expected different names
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array parameters{rapt::ParameterSpec{.name = "m"}};
  static constexpr std::array settings{rapt::SettingSpec{.name = "m", .value = 1, .high = 2}};
  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    return raw * at.scale + p[0];
  }
};

rapt::Score score = rapt::custom(Wrong{});
