#pragma once

#include <string>
#include <vector>

#include "rapt/attend.h"
#include "tensor/tape.h"

namespace rapt {

template <class T>
struct NamedTensor {
  std::string name;
  Tensor<T> value;
};

// Attention as an operation of a tape, through the fused engine.
template <class T>
struct AttentionCall {
  Tensor<T> q;  // [batch, heads, queries, dim]: views of split_heads()
  Tensor<T> k;
  Tensor<T> v;
  const MechanismInfo* mechanism = nullptr;
  std::vector<NamedTensor<T>> parameters;
  std::vector<NamedNumber> settings;
  std::array<std::int64_t, 2> grid{};
  Mask mask;
  Normalizer normalizer = Normalizer::softmax;
  // Where the weights go, [batch, heads, queries, keys], when they are wanted.
  T* weights = nullptr;
};

// [queries, batch, heads·value_dim]: the heads side by side again.
template <class T>
Tensor<T> attention(Tape<T>& tape, const AttentionCall<T>& call);

}  // namespace rapt
