// expected: rapt: form: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr bool grid = true;
  static constexpr std::array parameters{rapt::ParameterSpec{.name = "a"}};
  template <class P>
  rapt::QuadraticForm<double> form(const P& p) const {
    return {0, 0, 0, -p[0], -p[0], 0};
  }
};

rapt::Score score = rapt::custom(Wrong{});
