#pragma once

#include <string>
#include <vector>

#include "rapt/attend.h"
#include "tensor/tape.h"

namespace rapt::inline v1 {

template <class T>
struct NamedTensor {
  std::string name;
  Tensor<T> value;
};

// The layout of the outputs: [queries, batch, heads·value_dim], or [batch, heads, queries, value_dim].
enum class HeadLayout : std::uint8_t { side_by_side, apart };

// Attention as an operation of a tape, through the fused engine.
template <class T>
struct AttentionCall {
  Tensor<T> q;  // [batch, heads, queries, dim]: views of split_heads()
  Tensor<T> k;
  std::vector<Tensor<T>> values;  // one set, or several that share the map
  Tensor<T> bias;                 // added to the scores: [batch or 1, heads or 1, queries or 1, keys]; may be absent
  const MechanismInfo* mechanism = nullptr;
  std::vector<NamedTensor<T>> parameters;
  std::vector<NamedNumber> settings;
  std::array<std::int64_t, 2> grid{};
  Mask mask;
  std::int64_t first_query = 0;  // the position of query 0
  Normalizer normalizer = Normalizer::softmax;
  std::vector<NamedTensor<T>> normalizer_parameters;
  HeadLayout layout = HeadLayout::side_by_side;
  // Where the weights go, [batch, heads, queries, keys]; null: not wanted.
  T* weights = nullptr;
};

// The outputs of each value set, in the layout of the call. The map is computed once.
template <class T>
std::vector<Tensor<T>> shared_attention(Tape<T>& tape, const AttentionCall<T>& call);

// The same with one value set.
template <class T>
Tensor<T> attention(Tape<T>& tape, const AttentionCall<T>& call);

}  // namespace rapt::inline v1
