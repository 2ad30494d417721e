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
      if (p.role != Role::value && (p.role != Role::relative_value || p.along != Along::position)) return false;
  return !detail::HasPair<M> && !detail::HasVisible<M> &&
         (!detail::HasForm<M> || detail::HasScore<M>)&&!has_unit_rows<M>();
}

inline constexpr float kLog2E = 1.44269504f;

// From a raw score to the score and its slopes: the mechanism's formula, and the softcap where kCapped. A kernel is made
// for each: a branch in its loop would cost a tenth of its speed. kDense: of kernels that ask when they run for a bias, a
// dense mask, sigmoid, and in the forward pass a softcap and outputs in f32.
template <class M, bool kCapped_, bool kDense_ = false>
class ScoreRule {
 public:
  static_assert(servable<M>());
  using Mechanism = M;
  static constexpr bool kCapped = kCapped_, kDense = kDense_;
  static constexpr int kSlots = detail::slot_count<M>();
  // Nothing but a factor: it goes into the exponent's multiply-add.
  static constexpr bool kScaleOnly = !detail::HasScore<M> && !kCapped && !kDense;
  static constexpr bool kGrid = detail::has_grid<M>();
  // Without, q·kᵀ is not computed, and q and k get no gradient.
  static constexpr bool kReadsRaw = !detail::HasForm<M>;
  // Needs registers of its own: tiles are smaller then.
  static constexpr bool kHeavy = kCapped || kGrid || kSlots > 2;

  struct Slope {
    float score, by_raw, by_slot[kSlots + 1];
  };

  // What a score is multiplied by in the exponent of 2.
  RAPT_DEVICE static float exponent_factor(const Call& call) { return kScaleOnly ? call.scale * kLog2E : kLog2E; }

  // Numbers of a head.
  RAPT_DEVICE void begin(const Call& call, int batch, int head) {
    at_ = at_head(call, batch, head);
#pragma unroll
    for (int n = 0; n < kSlots; ++n) values_[n] = is_relative(n) ? 0.f : call.values[head * kSlots + n];
    if constexpr (kCapped || kDense) cap_ = call.softcap;
  }

  // A thread's first query and key of a tile; the pairs that follow are given as steps from there.
  RAPT_DEVICE void begin_tile(const Call& call, int query, int key) {
    const int i = query_shift(call, static_cast<int>(at_.batch)) + query;
    i_ = static_cast<float>(call.first_key + i);
    j_ = static_cast<float>(call.first_key + key);
    between_ = static_cast<float>(key - i);
#pragma unroll
    for (int n = 0; n < kSlots; ++n)
      if (is_relative(n))
        spread_[n] = call.tables[n].spread + static_cast<int>(at_.head) * call.tables[n].spread_stride + (key - i);
    if constexpr (kGrid) {
      query_places_ = call.grid_places + call.first_key + i;
      key_places_ = call.grid_places + call.first_key + key;
    }
  }

  // The score of raw, of the query `di` and the key `dj` on.
  RAPT_DEVICE float value(float raw, int di, int dj) {
    float score = raw * at_.scale.value;
    if constexpr (detail::HasScore<M>) {
      detail::SlotsOf<M, V> p{};
#pragma unroll
      for (int n = 0; n < kSlots; ++n) p.values[n] = V(number(n, di, dj));
      score = detail::evaluate<M, V>(M{}, V(raw), p, place(di, dj)).value;
    }
    return kCapped ? capped(score) : score;
  }

  RAPT_DEVICE Slope slope(float raw, int di, int dj) {
    Slope result{raw * at_.scale.value, at_.scale.value, {}};
    if constexpr (detail::HasScore<M>) {
      detail::SlotsOf<M, N> p{};
#pragma unroll
      for (int n = 0; n < kSlots; ++n) p.values[n] = N::variable(V(number(n, di, dj)), n + 1);
      const N y = detail::evaluate<M, N>(M{}, N::variable(V(raw), 0), p, place(di, dj));
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

  RAPT_DEVICE int head() const { return static_cast<int>(at_.head); }

  RAPT_DEVICE static constexpr bool is_relative(int slot) { return Scores<M>::is_relative(slot); }

  // c·tanh(x/c) = c − 2c/(1 + e^(2x/c)).
  RAPT_DEVICE float capped(float x) const {
    return fmaf(-2 * cap_, reciprocal_fast(1 + exp2_fast(x * (2 * kLog2E * reciprocal_fast(cap_)))), cap_);
  }

 private:
  using V = Number<float>;
  using N = Dual<V, kSlots + 1>;

  RAPT_DEVICE float number(int slot, int di, int dj) const {
    return is_relative(slot) ? __ldg(spread_[slot] + (dj - di)) : values_[slot];
  }

  RAPT_DEVICE const At<V>& place(int di, int dj) {
    at_.i = i_ + static_cast<float>(di);
    at_.j = j_ + static_cast<float>(dj);
    at_.delta = between_ + static_cast<float>(dj - di);
    if constexpr (kGrid) {
      const float2 query = __ldg(query_places_ + di), key = __ldg(key_places_ + dj);
      at_.row = key.x - query.x;
      at_.col = key.y - query.y;
    }
    return at_;
  }

  At<V> at_{};
  float values_[kSlots + 1];
  float cap_ = 0;
  float i_, j_, between_;
  const float* spread_[kSlots + 1];
  const float2 *query_places_, *key_places_;
};

}  // namespace rapt::inline v1::cuda::hopper
