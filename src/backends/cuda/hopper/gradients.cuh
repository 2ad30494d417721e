#pragma once

#include "backends/cuda/hopper/fragments.cuh"
#include "backends/cuda/hopper/score.cuh"

// What the two kernels of the backward pass share.
//
//   backward_keys.cuh     a block owns keys and loops over queries: sᵀ = k·qᵀ, dpᵀ = v·doutᵀ, dv += pᵀ·dout, dk += dsᵀ·q
//   backward_queries.cuh  a block owns queries and loops over keys: s = q·kᵀ, dp = dout·vᵀ, dq += ds·k, and ∂ of the numbers
//
// with p = exp(score(s) − lse) and ds = p∘(dp − δ)·∂score/∂s. Seven products where five would do, but nothing is exchanged
// between blocks, and every sum is taken by one thread: the bits are the same in every run. A step's last product and the
// next step's first two are in flight while the other warpgroups work on their scores.
namespace rapt::inline v1::cuda::hopper {

// kGroups warpgroups of 64 rows that the block owns, and kTile rows of the other side a step.
template <int kGroups_, int kTile_>
struct GradientPlan {
  static constexpr int kGroups = kGroups_, kTile = kTile_;
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kConsumerRegisters = kGroups == 3 ? 160 : 240, kProducerRegisters = kGroups == 3 ? 32 : 24;
};

// Whether p is exp2 of the raw score times a factor: its gradient then is p∘(dp − δ), but for that factor.
template <class M>
RAPT_DEVICE bool is_plain(const Call& call) {
  return ScoreRule<M>::kScaleOnly && call.softcap == 0;
}

// p and ds of one pair; without a formula ds lacks the factor `scale`. `slots` takes the derivatives by the numbers.
struct PairGradient {
  float weight, score;
};
template <class M, class F>
RAPT_DEVICE PairGradient pair_gradient(const Call& call, ScoreRule<M>& rule, float factor, float raw, float dp,
                                       float log2_sum, float delta, bool hidden, float i, float j, float between,
                                       const F& slots) {
  float score = raw, slope = 1;
  typename ScoreRule<M>::N y;
  if constexpr (!ScoreRule<M>::kScaleOnly) {
    y = rule.dual(raw, i, j, between);
    score = y.value.value;
  } else {
    score *= call.scale;
  }
  if (call.softcap > 0) {
    score = capped(score, call.softcap);
    const float t = score / call.softcap;
    slope = 1 - t * t;
  }
  const float weight = hidden ? 0.f : exp2_fast(fmaf(score, factor, -log2_sum));
  float gradient = weight * (dp - delta) * slope;
  if constexpr (!ScoreRule<M>::kScaleOnly) {
    slots(gradient, y);
    gradient *= y.d[0].value;
  }
  return {weight, hidden ? 0.f : gradient};
}

}  // namespace rapt::inline v1::cuda::hopper
