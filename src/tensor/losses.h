#pragma once

#include <span>

#include "tensor/ops.h"

// Losses of pictures, one row per pixel. As with cross_entropy, backward() starts from them: the gradient of the loss
// times `weight` is added at once.
namespace rapt::inline v1 {

// Σ |x − target|. NaN targets do not count; `near`: the largest error that counts as correct.
template <class T>
LossSums absolute_error(Tape<T>& tape, const Tensor<T>& x, std::span<const float> targets, double near, T weight);

// Σ 1 − cos of the angle between x [.., 3] and the target, a unit vector; target rows (0, 0, 0) do not count. `near`:
// the least cosine that counts as correct.
template <class T>
LossSums cosine_error(Tape<T>& tape, const Tensor<T>& x, std::span<const float> targets, double near, T weight);

// Σ of the cross-entropy of sigmoid(x) [.., 1] against 0 or 1; rows with target 1 have weight `one`, others `zero`.
struct BinaryWeights {
  double zero = 1;
  double one = 1;
};
template <class T>
LossSums binary_cross_entropy(Tape<T>& tape, const Tensor<T>& x, std::span<const std::uint8_t> targets,
                              const BinaryWeights& weights, T weight);

}  // namespace rapt::inline v1
