#pragma once

#include "backends/cuda/hopper/dense.cuh"
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

// The tiles [begin, end) of the other side that a block meets, at least one; those of [full, cut) meet all of it.
struct TileSpan {
  int begin, end, full, cut;

  RAPT_DEVICE bool is_cut(int tile) const { return tile < full || tile >= cut; }
  // In registers that a loop over products can run by.
  RAPT_DEVICE TileSpan in_uniform_registers() const {
    return {uniform(begin), uniform(end), uniform(full), uniform(cut)};
  }
};

// p and ds of one pair. `take` gets the derivatives by the numbers.
struct PairGradient {
  float weight, raw;
};
template <class Rule, class F>
RAPT_DEVICE PairGradient pair_gradient(Rule& rule, float raw, float dp, float log2_sum, float delta, bool hidden,
                                       int di, int dj, const F& take) {
  const auto y = rule.slope(raw, di, dj);
  // Selected afterwards: a branch for each pair would keep the products from overlapping.
  float weight = exp2_fast(fmaf(y.score, kLog2E, -log2_sum)), gradient = weight * (dp - delta);
  take(gradient, y.by_slot, hidden);
  gradient *= y.by_raw;
  weight = hidden ? 0.f : weight;
  gradient = hidden ? 0.f : gradient;
  return {weight, gradient};
}

// The same of a dense rule: under softmax, or, where log2_sum is b·log2(e), sigmoid.
template <class Rule, class F>
RAPT_DEVICE PairGradient dense_gradient(Rule& rule, bool is_sigmoid, float raw, float bias, float dp, float log2_sum,
                                        float delta, bool hidden, int di, int dj, const F& take) {
  const auto y = rule.slope(raw, di, dj);
  float weight = exp2_fast(fmaf(y.score + bias, is_sigmoid ? -kLog2E : kLog2E, -log2_sum));
  if (is_sigmoid) weight = reciprocal_fast(1 + weight);
  const float slope = fmaf(is_sigmoid ? -weight : 0.f, weight, weight);
  float gradient = slope * (dp - delta);
  take(gradient, y.by_slot, hidden);
  gradient *= y.by_raw;
  weight = hidden ? 0.f : weight;
  gradient = hidden ? 0.f : gradient;
  return {weight, gradient};
}

}  // namespace rapt::inline v1::cuda::hopper
