#pragma once

#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rapt/mechanism.h"
#include "rapt/tile_program.h"

namespace rapt::inline v1 {

namespace detail {

// A formula given as a lambda: score(raw, at) → number, over the product q·k.
template <class F>
struct FormulaMechanism {
  static constexpr std::string_view formula = "a function of the raw score and the pair";
  static constexpr bool scaled = true;
  F function_;

  template <class N, class P, class V>
  constexpr N score(N raw, const P&, const At<V>& at) const {
    return N(function_(raw, at));
  }
};

struct OtherCall {
  void operator()() const {}
};
template <class M>
struct BothCall : M, OtherCall {};

// Whether M can be called at all, with whatever arguments; a function always can.
template <class M>
constexpr bool has_call_operator() {
  if constexpr (!std::is_class_v<M>) return true;
  else if constexpr (std::is_final_v<M>) return false;
  else return !requires {
      &BothCall<M>::operator();
    };
}

template <class F, class N, class V> concept CallsOver = requires(const F& f, const N& raw, const At<V>& at) {
  requires std::is_convertible_v<decltype(f(raw, at)), N>;
};
template <class F, class V> concept CallsOn = CallsOver<F, V, V> && CallsOver<F, Dual<V, 1>, V>;
template <class F> concept GoodFormulaFunction = CallsOn<F, F32> && CallsOn<F, F64>;

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

// A custom mechanism: a struct of hooks (see hooks.h), or a generic lambda of the raw score and the pair:
//   custom([](auto raw, const auto& at) { return raw * at.scale - 0.1f * abs(at.offset()); })
// Products and softmax run on the library's SIMD kernels; the hooks run as this program compiled them.
template <class M>
Score custom(M mechanism) {
  if constexpr (detail::has_call_operator<M>()) {
    static_assert(
        detail::GoodFormulaFunction<M>,
        "rapt: custom: expected a struct of hooks, or a lambda [](auto raw, const auto& at) that returns a number");
    if constexpr (detail::GoodFormulaFunction<M>)
      return detail::make_score(detail::FormulaMechanism<M>{std::move(mechanism)});
    else return {};
  } else {
    return detail::make_score(std::move(mechanism));
  }
}

}  // namespace rapt::inline v1
