// expected: rapt: form: expected `static constexpr bool grid = true`
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array parameters{rapt::ParameterSpec{.name = "a"}};
  template <class N, class P>
  rapt::QuadraticForm<N> form(const P& p) const {
    return {N(0), N(0), N(0), -p[0], -p[0], N(0)};
  }
};

rapt::Score score = rapt::custom(Wrong{});
