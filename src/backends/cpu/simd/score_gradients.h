#pragma once

#include "backends/cpu/simd/rows.h"

// From gradients of weights to those of scores.
namespace rapt::inline v1::RAPT_TARGET {

// ∂score = u∘(∂weight − δ) in place, u the slopes of the weights; a pair without weight has no gradient, whatever its values
// are. Softmax's slopes are its weights.
template <class T>
struct ScoreGradients {
  const T* slopes = nullptr;  // [keys][stride], as the gradients
  T* grads = nullptr;
  int keys = 0, stride = 0;
  const T* delta = nullptr;       // of each column, as those that follow
  const T* delta_rest = nullptr;  // null: none
  T* sums = nullptr;              // added to: Σ ∂score, and of their sizes
  T* sizes = nullptr;
};

template <class T>
void score_gradients(const ScoreGradients<T>& args, int first, int columns) {
  const Tag<T> tag;
  const auto of_columns = [&](int c, const auto& lowered) {
    Vec<T> sum = hn::LoadU(tag, args.sums + c), size = hn::LoadU(tag, args.sizes + c);
    for (int j = 0; j < args.keys; ++j) {
      const Vec<T> u = hn::LoadU(tag, args.slopes + j * args.stride + c);
      T* const g = args.grads + j * args.stride + c;
      const Vec<T> ds = hn::IfThenZeroElse(hn::Eq(u, hn::Zero(tag)), hn::Mul(u, lowered(hn::LoadU(tag, g))));
      hn::StoreU(ds, tag, g);
      sum = hn::Add(sum, ds);
      size = hn::Add(size, hn::Abs(ds));
    }
    hn::StoreU(sum, tag, args.sums + c);
    hn::StoreU(size, tag, args.sizes + c);
  };
  for (int c = first; c < first + columns; c += kLanes<T>) {
    const Vec<T> delta = hn::LoadU(tag, args.delta + c);
    if (!args.delta_rest) {
      of_columns(c, [&](Vec<T> g) { return hn::Sub(g, delta); });
      continue;
    }
    const Vec<T> rest = hn::LoadU(tag, args.delta_rest + c);
    of_columns(c, [&](Vec<T> g) { return hn::Sub(hn::Sub(g, delta), rest); });
  }
}

}  // namespace rapt::inline v1::RAPT_TARGET
