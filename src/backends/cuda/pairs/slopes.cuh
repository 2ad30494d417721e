#pragma once

#include "backends/cuda/general/pairs.cuh"
#include "rapt/dual.h"

// What a pair adds to the gradients of its two rows and of the weights, in two dimensions.
namespace rapt::inline v1::cuda::pairs {

template <class M>
constexpr bool has_pair_weight() {
  if constexpr (detail::HasParameters<M>)
    for (const ParameterSpec& p : M::parameters)
      if (p.role == Role::pair_weight) return true;
  return false;
}

// By the mechanism's fast form, from prepared rows: ∂raw/∂q = slope·w·q·k·r².
template <class M>
class FastSlopes {
 public:
  RAPT_DEVICE void set_weight(int n, float w) { weights_[n] = w; }
  // The sum of ∂raw over the pairs that follow: what all of them share.
  RAPT_DEVICE void begin(float sum) {
    shared_ = static_cast<float>(M::fast_offset) * sum;
    parts_[0] = parts_[1] = 0;
  }
  RAPT_DEVICE void add(float g, float q0, float k0, float q1, float k1, float& dq0, float& dk0, float& dq1,
                       float& dk1) {
    Quick r0, r1;
    M::template fast_shares<Quick>(q0, k0, q1, k1, r0, r1);
    const float u0 = g * r0.value, u1 = g * r1.value, part0 = u0 * r0.value, part1 = u1 * r1.value;
    parts_[0] += u0;
    parts_[1] += u1;
    dq0 = fmaf(part0, k0, dq0);
    dk0 = fmaf(part0, q0, dk0);
    dq1 = fmaf(part1, k1, dq1);
    dk1 = fmaf(part1, q1, dk1);
  }
  RAPT_DEVICE void end() {
#pragma unroll
    for (int n = 0; n < 2; ++n) sums_[n] += fmaf(static_cast<float>(M::fast_factor), parts_[n], shared_);
  }
  RAPT_DEVICE float weight_sum(int n) const { return sums_[n]; }
  RAPT_DEVICE float scaled(int n, float sum, float q) const { return scaled_key(weights_[n], sum, q); }
  RAPT_DEVICE static float scaled_key(float w, float sum, float number) {
    return static_cast<float>(M::fast_slope) * w * number * sum;
  }

 private:
  float weights_[2], sums_[2] = {}, parts_[2], shared_;
};

// By pair() on dual numbers. A hidden pair has no gradient, whatever its derivative is (it may be infinite).
template <class M>
class PairSlopes {
 public:
  using V = Number<float>;
  static constexpr bool kWeight = has_pair_weight<M>(), kDifference = detail::of_difference<M>();
  using N = Dual<V, (kDifference ? 1 : 2) + (kWeight ? 1 : 0)>;

  RAPT_DEVICE void set_weight(int n, float w) {
    weights_[n] = N(V(w));
    if constexpr (kWeight) weights_[n].d[kWeightDirection] = V(1);
  }
  RAPT_DEVICE void begin(float) {}
  RAPT_DEVICE void end() {}
  RAPT_DEVICE void add(float g, float q0, float k0, float q1, float k1, float& dq0, float& dk0, float& dq1,
                       float& dk1) {
    add_one(0, g, q0, k0, dq0, dk0);
    add_one(1, g, q1, k1, dq1, dk1);
  }
  RAPT_DEVICE float weight_sum(int n) const { return sums_[n]; }
  RAPT_DEVICE float scaled(int, float sum, float) const { return sum; }
  RAPT_DEVICE static float scaled_key(float, float sum, float) { return sum; }

 private:
  static constexpr int kWeightDirection = kDifference ? 1 : 2;

  RAPT_DEVICE void add_one(int n, float g, float q, float k, float& dq, float& dk) {
    N key{V(k)};
    if constexpr (!kDifference) key.d[1] = V(1);
    const N y = M{}.pair(N::variable(V(q), 0), key, weights_[n]);
    const bool hidden = g == 0;
    const auto add = [&](float& sum, float slope) { sum = hidden ? sum : fmaf(g, slope, sum); };
    add(dq, y.d[0].value);
    if constexpr (kDifference) add(dk, -y.d[0].value);
    else add(dk, y.d[1].value);
    if constexpr (kWeight) add(sums_[n], y.d[kWeightDirection].value);
  }

  N weights_[2];
  float sums_[2] = {};
};

}  // namespace rapt::inline v1::cuda::pairs
