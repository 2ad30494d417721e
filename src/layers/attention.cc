#include "layers/attention.h"

#include <algorithm>

#include "rapt/error.h"

namespace rapt::layers {
namespace {

// The engine scores one or two queries by another order of sums than more. Every call asks for at least three, so that
// the bits of a query depend on no other: alone, beside others, and one step after the other.
constexpr std::int64_t kLeastQueries = 3;

// x [steps, batch, width] with its last step repeated; the copies get no gradient.
template <class T>
Tensor<T> repeat_last(Tape<T>& tape, const Tensor<T>& x, std::int64_t steps) {
  const Tensor<T> y = tape.make({steps, x.size(1), x.size(2)});
  const std::int64_t step = x.size(1) * x.size(2);
  for (std::int64_t s = 0; s < steps; ++s)
    std::copy_n(x.data + std::min(s, x.size(0) - 1) * step, step, y.data + s * step);
  tape.record([x, y] {
    if (x.grad) tensor_kernels<T>().add(y.grad, x.grad, x.count());
  });
  return y;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(Parameters& parameters, const std::string& name, const MultiHeadShape& shape)
    : shape_(shape) {
  if (shape_.hidden == 0) {
    if (shape_.heads < 1 || shape_.query_in % shape_.heads != 0)
      throw Error(name + ": got a width of " + std::to_string(shape_.query_in) + " and " +
                  std::to_string(shape_.heads) + " heads, takes heads that divide the width");
    shape_.hidden = shape_.query_in / shape_.heads;
  }
  if (shape_.value_dim == 0) shape_.value_dim = shape_.hidden;
  if (shape_.out == 0) shape_.out = shape_.query_in;
  if (shape_.rotary && shape_.hidden % 2 != 0)
    throw Error(name + ": got heads of " + std::to_string(shape_.hidden) +
                " numbers, rotary positions take an even number");
  const std::int64_t width = shape_.heads * shape_.hidden;
  const bool inner = shape_.bias == ProjectionBias::all;
  query_ = Linear(parameters, name + ".query", shape_.query_in, width, inner);
  key_ = Linear(parameters, name + ".key", shape_.key_in, width, inner);
  value_ = Linear(parameters, name + ".value", shape_.key_in, shape_.heads * shape_.value_dim, inner);
  out_ = Linear(parameters, name + ".out", shape_.heads * shape_.value_dim, shape_.out,
                shape_.bias != ProjectionBias::none);
  shape_.score.heads = shape_.heads;
  shape_.score.query_dim = shape_.score.key_dim = shape_.hidden;
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
Tensor<T> MultiHeadAttention::attend(Graph<T>& graph, const Tensor<T>& q, const KeysValues<T>& memory, const Mask& mask,
                                     T* weights) const {
  const auto ask = [&](const Tensor<T>& queries, T* map) {
    return score_(graph, queries.split_heads(shape_.heads), memory.k.split_heads(shape_.heads),
                  memory.v.split_heads(shape_.heads), mask, map, q.size(0));
  };
  const std::int64_t steps = q.size(0);
  // A table of positions may know fewer.
  const std::int64_t most = score_.choice().max_length;
  const std::int64_t rows = most > 0 ? std::min(kLeastQueries, most) : kLeastQueries;
  if (steps >= rows) return ask(q, weights);
  const std::int64_t keys = memory.k.size(0);
  const std::int64_t maps = q.size(1) * shape_.heads;
  T* map = weights ? graph.tape.scratch(maps * rows * keys) : nullptr;
  const Tensor<T> result = ask(repeat_last(graph.tape, q, rows), map);
  for (std::int64_t n = 0; map && n < maps; ++n)
    std::copy_n(map + n * rows * keys, steps * keys, weights + n * steps * keys);
  return result.slice(0, 0, steps);
}

template <class T>
Tensor<T> MultiHeadAttention::operator()(Graph<T>& graph, const Tensor<T>& x, const Tensor<T>& memory, const Mask& mask,
                                         T* weights) const {
  return project(graph, attend(graph, queries(graph, x, 0), keys_values(graph, memory, 0), mask, weights));
}

#define RAPT_INSTANTIATE(T)                                                                                         \
  template Tensor<T> MultiHeadAttention::queries(Graph<T>&, const Tensor<T>&, std::int64_t) const;                  \
  template KeysValues<T> MultiHeadAttention::keys_values(Graph<T>&, const Tensor<T>&, std::int64_t) const;          \
  template Tensor<T> MultiHeadAttention::attend(Graph<T>&, const Tensor<T>&, const KeysValues<T>&, const Mask&, T*) \
      const;                                                                                                        \
  template Tensor<T> MultiHeadAttention::operator()(Graph<T>&, const Tensor<T>&, const Tensor<T>&, const Mask&, T*) \
      const;
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::layers
