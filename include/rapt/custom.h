#pragma once

#include <memory>
#include <utility>

#include "rapt/mechanism.h"
#include "rapt/tile_program.h"

namespace rapt {

namespace detail {

// A formula given as a lambda: score(raw, at) → number, over the product q·k.
template <class F>
struct FormulaMechanism {
  static constexpr bool scaled = true;
  F formula_;

  template <class N, class P, class V>
  constexpr N score(N raw, const P&, const At<V>& at) const {
    return N(formula_(raw, at));
  }
};

template <class M>
const MechanismInfo& custom_info() {
  static const MechanismDefinition definition = make_definition<M>("custom");
  static const MechanismInfo info(definition);
  return info;
}

template <class M>
Score make_score(M mechanism) {
  Score score;
  score.mechanism = &custom_info<M>();
  score.object = std::make_shared<const M>(std::move(mechanism));
  return score;
}

}  // namespace detail

// A mechanism of the caller's own: a struct of hooks (see hooks.h), or a generic lambda of the raw score and the pair:
//   custom([](auto raw, const auto& at) { return raw * at.scale - 0.1f * rapt::abs(at.offset()); })
// Products and softmax run on the library's SIMD kernels; the hooks run as this program compiled them.
template <class M>
Score custom(M mechanism) {
  if constexpr (requires(const M& m, float x, const At<float>& at) { m(x, at); })
    return detail::make_score(detail::FormulaMechanism<M>{std::move(mechanism)});
  else return detail::make_score(std::move(mechanism));
}

}  // namespace rapt
