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

// From a raw score to the score and its slopes: the mechanism's formula, and the softcap where kCapped. A kernel is made
// for each: a branch in its loop would cost a tenth of its speed.
template <class M, bool kCapped_>
class ScoreRule {
 public:
  static_assert(servable<M>());
  using Mechanism = M;
  static constexpr bool kCapped = kCapped_;
  static constexpr int kSlots = detail::slot_count<M>();
  // Nothing but a factor: it goes into the exponent's multiply-add.
  static constexpr bool kScaleOnly = !detail::HasScore<M> && !kCapped;

  struct Slope {
    float score, by_raw, by_slot[kSlots + 1];
  };

  // What a score is multiplied by in the exponent of 2.
  RAPT_DEVICE static float exponent_factor(const Call& call) { return kScaleOnly ? call.scale * kLog2E : kLog2E; }

  // Numbers of a head.
  RAPT_DEVICE void begin(const Call& call, int batch, int head) {
    at_ = at_head(call, batch, head);
#pragma unroll
    for (int n = 0; n < kSlots; ++n) values_[n] = call.values[head * kSlots + n];
    if constexpr (kCapped) cap_ = call.softcap;
  }

  // The score of raw, of a query and a key at these positions, `delta` apart.
  RAPT_DEVICE float value(float raw, float i, float j, float delta) {
    float score = raw * at_.scale.value;
    if constexpr (detail::HasScore<M>) {
      detail::SlotsOf<M, V> p{};
#pragma unroll
      for (int n = 0; n < kSlots; ++n) p.values[n] = V(values_[n]);
      score = detail::evaluate<M, V>(M{}, V(raw), p, place(i, j, delta)).value;
    }
    return kCapped ? capped(score) : score;
  }

  RAPT_DEVICE Slope slope(float raw, float i, float j, float delta) {
    Slope result{raw * at_.scale.value, at_.scale.value, {}};
    if constexpr (detail::HasScore<M>) {
      detail::SlotsOf<M, N> p{};
#pragma unroll
      for (int n = 0; n < kSlots; ++n) p.values[n] = N::variable(V(values_[n]), n + 1);
      const N y = detail::evaluate<M, N>(M{}, N::variable(V(raw), 0), p, place(i, j, delta));
      result.score = y.value.value;
      result.by_raw = y.d[0].value;
#pragma unroll
      for (int n = 0; n < kSlots; ++n) result.by_slot[n] = y.d[n + 1].value;
    }
    if constexpr (kCapped) {
      result.score = capped(result.score);
      const float t = result.score * reciprocal_fast(cap_), factor = 1 - t * t;
      result.by_raw *= factor;
#pragma unroll
      for (int n = 0; n < kSlots; ++n) result.by_slot[n] *= factor;
    }
    return result;
  }

 private:
  using V = Number<float>;
  using N = Dual<V, kSlots + 1>;

  RAPT_DEVICE const At<V>& place(float i, float j, float delta) {
    at_.i = i;
    at_.j = j;
    at_.delta = delta;
    return at_;
  }

  // c·tanh(x/c) = c − 2c/(1 + e^(2x/c)).
  RAPT_DEVICE float capped(float x) const {
    return fmaf(-2 * cap_, reciprocal_fast(1 + exp2_fast(x * (2 * kLog2E * reciprocal_fast(cap_)))), cap_);
  }

  At<V> at_{};
  float values_[kSlots + 1];
  float cap_ = 0;
};

}  // namespace rapt::inline v1::cuda::hopper
