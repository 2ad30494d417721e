#pragma once

#include <span>

#include "tensor/simd/table.h"
#include "tensor/tape.h"

// Operations on tensors. Each records its backward pass on the tape; gradients accumulate.
namespace rapt::inline v1 {

// y = x·W (+ b): x [.., in], W [in, out], b [out].
template <class T>
Tensor<T> linear(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias = {});

// The activation of x·W (+ b), applied to each block of the product (gelu that is recorded: afterwards).
template <class T>
Tensor<T> linear_activated(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias,
                           Activation kind);

// x·Wᵀ: x [.., in], W [out, in]. For an output layer that shares the embedding's matrix.
template <class T>
Tensor<T> linear_transposed(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias = {});

// Σ_h x[h]·W_h + b: x [heads, rows, in], W [heads·in, out] with the W_h stacked, y [rows, out].
template <class T>
Tensor<T> linear_of_heads(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias);

// a + b; b is broadcast along dimensions where its size is 1.
template <class T>
Tensor<T> add(Tape<T>& tape, const Tensor<T>& a, const Tensor<T>& b);

template <class T>
Tensor<T> scale(Tape<T>& tape, const Tensor<T>& x, T factor);

template <class T>
Tensor<T> activate(Tape<T>& tape, Activation kind, const Tensor<T>& x);

// Concatenation along the last dimension. A size of 1 in a part is broadcast to that of the first.
template <class T>
Tensor<T> concatenate(Tape<T>& tape, std::span<const Tensor<T>> parts);

// The rows of `table` [symbols, width] that the ids name, in the shape [steps, batch, width].
template <class T>
Tensor<T> embed(Tape<T>& tape, const Tensor<T>& table, std::span<const int> ids, std::int64_t batch);

template <class T>
Tensor<T> layer_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gain, const Tensor<T>& bias,
                     T epsilon = T(1e-5));

// Sets each element to 0 with probability `rate` and scales the others to keep the mean. The same key drops the same
// elements.
template <class T>
Tensor<T> dropout(Tape<T>& tape, const Tensor<T>& x, T rate, std::uint64_t key);

// Rotates adjacent pairs of elements of each head by an angle that grows with the step: x [steps, batch, heads·dim].
template <class T>
Tensor<T> rotate(Tape<T>& tape, const Tensor<T>& x, std::int64_t heads, std::int64_t first_step = 0);

struct LossSums {
  double loss = 0;  // in nats, over all tokens
  std::int64_t tokens = 0;
  std::int64_t correct = 0;
};

// Softmax and cross-entropy of logits [.., symbols] against a target for each row; rows whose target is `ignored` do
// not count. backward() starts from here: the gradient of the loss times `weight`.
template <class T>
LossSums cross_entropy(Tape<T>& tape, const Tensor<T>& logits, std::span<const int> targets, int ignored, T smoothing,
                       T weight);

}  // namespace rapt::inline v1
