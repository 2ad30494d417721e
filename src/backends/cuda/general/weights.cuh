#pragma once

#include "backends/cuda/general/scores.cuh"
#include "backends/cuda/normalizers.h"

// From scores to weights, by the normaliser of the call.
namespace rapt::inline v1::cuda {

// The weight of a score at x = score − τ with its derivatives by x and by each p[n].
template <class W>
RAPT_DEVICE auto normalizer_dual(float x, const float* p) {
  constexpr int kSlots = detail::normalizer_slots<W>();
  using N = Dual<Number<float>, kSlots + 1>;
  N slots[kSlots + 1];
  for (int n = 0; n < kSlots; ++n) slots[n] = N::variable(Number<float>(p[n]), n + 1);
  return W{}.weight(N::variable(Number<float>(x), 0), static_cast<const N*>(slots));
}

struct Weight {
  float value, slope;  // ∂value/∂score at the row's threshold
};

// One row's statistics and what follows from them.
struct Row {
  float max, sum;
  float inverse;

  RAPT_DEVICE static Row of(float max, float sum) { return {max, sum, sum == 0 ? 0.f : 1 / sum}; }
};

// Of a normaliser whose weight is a function of x = score − τ. Not inlined: few calls come here, and it is long.
static __device__ __noinline__ Weight shaped_weight(int id, float x, const float* p) {
  if (x != x) return {x, x};
  return with_normalizer(id, [&](auto normalizer) {
    using W = decltype(normalizer);
    if constexpr (detail::HasWeight<W>) {
      const auto y = normalizer_dual<W>(x, p);
      return Weight{y.value.value, y.value.value == 0 ? 0.f : y.d[0].value};
    } else {
      return Weight{0, 0};
    }
  });
}

RAPT_DEVICE Weight weight_of(const Call& call, const Row& row, const float* p, float logit, int key) {
  if (logit == kHidden) return {0, 0};
  if (call.threshold == Threshold::exponential) {
    const float w = expf(logit - row.max) * row.inverse;
    return {w, w};
  }
  if (call.threshold == Threshold::first_largest)
    return {row.max != row.max ? row.max : (static_cast<float>(key) == row.sum ? 1.f : 0.f), 0};
  return shaped_weight(call.normalizer, call.threshold == Threshold::solved ? (logit - row.max) - row.sum : logit, p);
}

// ∂weight/∂p[n] of a normaliser without a threshold.
static __device__ __noinline__ float parameter_slope(const Call& call, const float* p, float logit, int n) {
  return with_normalizer(call.normalizer, [&](auto normalizer) {
    using W = decltype(normalizer);
    if constexpr (detail::HasWeight<W>) {
      const auto y = normalizer_dual<W>(logit, p);
      float slope = 0;
      for (int k = 0; k < detail::normalizer_slots<W>(); ++k) slope = k == n ? y.d[k + 1].value : slope;
      return slope;
    } else {
      return 0.f;
    }
  });
}

RAPT_DEVICE int normalizer_slot_count(const Call& call) {
  return with_normalizer(call.normalizer,
                         [](auto normalizer) { return detail::normalizer_slots<decltype(normalizer)>(); });
}

}  // namespace rapt::inline v1::cuda
