#pragma once

#include "backends/cuda/hopper/masks.cuh"
#include "backends/cuda/hopper/sm90.h"

// A mechanism's formula on the numbers of a fragment.
namespace rapt::inline v1::cuda::hopper {

template <class M>
constexpr bool has_unit_rows() {
  if constexpr (requires { M::unit_rows; }) return M::unit_rows;
  return false;
}

// Whether a mechanism's scores can be computed here at all; the rest is asked of the call.
template <class M>
constexpr bool servable() {
  if constexpr (detail::HasParameters<M>)
    for (const ParameterSpec& p : M::parameters)
      if (p.role != Role::value) return false;
  return !detail::HasPair<M> && !detail::HasVisible<M> && !detail::HasForm<M> && !detail::has_grid<M>() &&
         !has_unit_rows<M>();
}

inline constexpr float kLog2E = 1.44269504f;

// c·tanh(x/c) = c − 2c/(1 + e^(2x/c)).
RAPT_DEVICE float capped(float x, float cap) {
  return cap - 2 * cap * __frcp_rn(1 + exp2_fast(x * (2 * kLog2E / cap)));
}

template <class M>
class ScoreRule {
 public:
  static_assert(servable<M>());
  static constexpr int kSlots = detail::slot_count<M>();
  // Nothing but a factor: it goes into the exponent's multiply-add.
  static constexpr bool kScaleOnly = !detail::HasScore<M>;
  using V = Number<float>;
  using N = Dual<V, kSlots + 1>;

  // Numbers of a head.
  RAPT_DEVICE void begin(const Call& call, int batch, int head) {
    at_ = at_head(call, batch, head);
#pragma unroll
    for (int n = 0; n < kSlots; ++n) values_[n] = call.values[head * kSlots + n];
  }

  // The score of raw, of a query and a key at these positions, `delta` apart.
  RAPT_DEVICE float value(float raw, float i, float j, float delta) {
    detail::SlotsOf<M, V> p{};
#pragma unroll
    for (int n = 0; n < kSlots; ++n) p.values[n] = V(values_[n]);
    return detail::evaluate<M, V>(M{}, V(raw), p, place(i, j, delta)).value;
  }

  // Its derivatives too: d[0] by raw, d[1 + n] by slot n.
  RAPT_DEVICE N dual(float raw, float i, float j, float delta) {
    detail::SlotsOf<M, N> p{};
#pragma unroll
    for (int n = 0; n < kSlots; ++n) p.values[n] = N::variable(V(values_[n]), n + 1);
    return detail::evaluate<M, N>(M{}, N::variable(V(raw), 0), p, place(i, j, delta));
  }

 private:
  RAPT_DEVICE const At<V>& place(float i, float j, float delta) {
    at_.i = i;
    at_.j = j;
    at_.delta = delta;
    return at_;
  }

  At<V> at_{};
  float values_[kSlots + 1];
};

// What a score is multiplied by in the exponent of 2.
template <class M>
RAPT_DEVICE float exponent_factor(const Call& call) {
  return ScoreRule<M>::kScaleOnly && call.softcap == 0 ? call.scale * kLog2E : kLog2E;
}

}  // namespace rapt::inline v1::cuda::hopper
