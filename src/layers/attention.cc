#include "layers/attention.h"

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1::layers {
MultiHeadAttention::MultiHeadAttention(Parameters& parameters, const std::string& name, const MultiHeadShape& shape)
    : shape_(shape) {
  if (shape_.hidden == 0) {
    if (shape_.heads < 1 || shape_.query_in % shape_.heads != 0)
      throw Error(name + ": expected a number of heads that divides the width, got a width of " +
                  std::to_string(shape_.query_in) + " and " + counted(shape_.heads, "head"));
    shape_.hidden = shape_.query_in / shape_.heads;
  }
  if (shape_.value_dim == 0) shape_.value_dim = shape_.hidden;
  if (shape_.out == 0) shape_.out = shape_.query_in;
  if (shape_.rotary && shape_.hidden % 2 != 0)
    throw Error(name + ": expected an even head_dim for rotary positions, got " + std::to_string(shape_.hidden));
  const std::int64_t width = shape_.heads * shape_.hidden;
  const bool inner = shape_.bias == ProjectionBias::all;
  query_ = Linear(parameters, name + ".query", shape_.query_in, width, inner);
  key_ = Linear(parameters, name + ".key", shape_.key_in, width, inner);
  value_ = Linear(parameters, name + ".value", shape_.key_in, shape_.heads * shape_.value_dim, inner);
  out_ = Linear(parameters, name + ".out", shape_.heads * shape_.value_dim, shape_.out,
                shape_.bias != ProjectionBias::none);
  shape_.score.heads = shape_.heads;
  shape_.score.query_dim = shape_.score.key_dim = shape_.hidden;
  shape_.score.value_dim = shape_.value_dim;
  score_ = ScoreLayer(parameters, name + ".score", shape_.score, name);
}

template <class T>
Tensor<T> MultiHeadAttention::queries(Graph<T>& graph, const Tensor<T>& x, std::int64_t first_step) const {
  const Tensor<T> q = query_(graph, x);
  return shape_.rotary ? rotate(graph.tape, q, shape_.heads, first_step) : q;
}

template <class T>
KeysValues<T> MultiHeadAttention::keys_values(Graph<T>& graph, const Tensor<T>& memory, std::int64_t first_step) const {
  const Tensor<T> k = key_(graph, memory);
  return {shape_.rotary ? rotate(graph.tape, k, shape_.heads, first_step) : k, value_(graph, memory)};
}

template <class T>
Tensor<T> MultiHeadAttention::attend(Graph<T>& graph, const Tensor<T>& q, const KeysValues<T>& memory,
                                     const AttentionOptions<T>& options) const {
  return score_(graph, q.split_heads(shape_.heads), memory.k.split_heads(shape_.heads),
                memory.v.split_heads(shape_.heads), options);
}

template <class T>
Tensor<T> MultiHeadAttention::operator()(Graph<T>& graph, const Tensor<T>& x, const Tensor<T>& memory,
                                         const AttentionOptions<T>& options) const {
  return project(graph, attend(graph, queries(graph, x, options.first_query), keys_values(graph, memory, 0), options));
}

#define RAPT_INSTANTIATE(T)                                                                                \
  template Tensor<T> MultiHeadAttention::queries(Graph<T>&, const Tensor<T>&, std::int64_t) const;         \
  template KeysValues<T> MultiHeadAttention::keys_values(Graph<T>&, const Tensor<T>&, std::int64_t) const; \
  template Tensor<T> MultiHeadAttention::attend(Graph<T>&, const Tensor<T>&, const KeysValues<T>&,         \
                                                const AttentionOptions<T>&) const;                         \
  template Tensor<T> MultiHeadAttention::operator()(Graph<T>&, const Tensor<T>&, const Tensor<T>&,         \
                                                    const AttentionOptions<T>&) const;
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::inline v1::layers
