// expected: rapt: quadratic_form: the engine does not call this name; did you mean form?
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr bool grid = true;
  static constexpr std::array parameters{rapt::ParameterSpec{.name = "a"}};
  template <class N, class P>
  rapt::QuadraticForm<N> quadratic_form(const P& p) const {
    return {N(0), N(0), N(0), -p[0], -p[0], N(0)};
  }
  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    return raw * at.scale + p[0];
  }
};

rapt::Score score = rapt::custom(Wrong{});
