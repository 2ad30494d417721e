// Every function of numbers outside of namespace rapt, by its name alone and in full, with constants of any type.
#include <cmath>

#include "rapt/custom.h"

namespace elsewhere {

struct Functions {
  static constexpr std::string_view formula = "all of them";
  static constexpr std::array parameters{rapt::ParameterSpec{.name = "a"}, rapt::ParameterSpec{.name = "b"}};

  template <class N>
  N pair(N q, N k, N w) const {
    return w * tanh(q + k) + max(q, 0.f) + min(0, k) + where(q < k, q, 0) + where(q < 0 && !(k == 0.5), 0.25, k);
  }

  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    const auto distance = abs(at.offset());
    N sum = sin(raw) + cos(raw * 2) - pow(abs(raw), p[0]) + pow(raw, 2) + pow(2, p[1]) + pow(raw, distance);
    sum = sum + clamp(raw, -1, 1.f) + clamp(raw, p[0], p[1]) + sign(raw) * floor(raw / 3) + sqrt(abs(raw) + 1);
    sum = sum + exp(-distance) + log(1 + distance) + max(distance, raw) + min(p[0], at.scale) + rapt::max(raw, 0.5);
    return where(at.offset() >= 0, sum, rapt::abs(sum)) + where(at.head == 0, raw, -1.5) * rapt::pow(raw, 1.5);
  }

  template <class At>
  auto visible(const At& at) const {
    return abs(at.offset()) < 2 || at.j == 0;
  }
};

}  // namespace elsewhere

rapt::Score scores[] = {
    rapt::custom(elsewhere::Functions{}),
    rapt::custom([](auto raw, const auto& at) { return max(raw * at.scale, 0.f) - 0.1f * abs(at.offset()); }),
};
