// expected: rapt: p[n]: n is past the numbers of the declared parameters
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr bool grid = true;
  static constexpr std::array parameters{rapt::ParameterSpec{.name = "a"}};
  template <class N, class P>
  rapt::QuadraticForm<N> form(const P& p) const {
    return {N(0), N(0), N(0), -p[0], -p[1], N(0)};
  }
};

rapt::Score score = rapt::custom(Wrong{});
