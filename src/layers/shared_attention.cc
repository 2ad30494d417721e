#include "layers/shared_attention.h"

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1::layers {
namespace {

std::int64_t per_head(const std::string& name, std::int64_t width, std::int64_t heads) {
  if (heads < 1 || width % heads != 0)
    throw Error(name + ": expected a number of heads that divides the width, got a width of " + std::to_string(width) +
                " and " + counted(heads, "head"));
  return width / heads;
}

}  // namespace

SharedAttention::SharedAttention(Parameters& parameters, const std::string& name, const SharedAttentionShape& shape)
    : shape_(shape) {
  if (shape_.tasks < 1) throw Error(name + ": expected at least one task, got none");
  if (shape_.hidden == 0) shape_.hidden = per_head(name, shape_.map_in, shape_.heads);
  if (shape_.value_dim == 0) shape_.value_dim = per_head(name, shape_.width, shape_.heads);
  Grid seen = shape_.grid;
  if (shape_.window > 0) {
    if (seen.rows % shape_.window != 0 || seen.cols % shape_.window != 0 || seen.cells() == 0)
      throw Error(name + ": expected windows that divide the grid, got windows of " + std::to_string(shape_.window) +
                  " on a grid of " + std::to_string(seen.rows) + "×" + std::to_string(seen.cols));
    seen = {shape_.window, shape_.window};
  }
  const std::int64_t asked = shape_.heads * shape_.hidden;
  const std::int64_t valued = shape_.heads * shape_.value_dim;
  query_ = Linear(parameters, name + (shape_.one_projection ? ".query_key" : ".query"), shape_.map_in, asked);
  if (!shape_.one_projection) key_ = Linear(parameters, name + ".key", shape_.map_in, asked);
  for (std::int64_t t = 0; t < shape_.tasks; ++t) {
    const std::string own = name + "." + std::to_string(t);
    Task& task = tasks_.emplace_back();
    if (shape_.norm) task.norm = LayerNorm(parameters, own + ".norm", shape_.width);
    task.value = Linear(parameters, own + ".value", shape_.width, valued);
    task.out = Linear(parameters, own + ".out", valued, shape_.width);
  }
  shape_.score.heads = shape_.heads;
  shape_.score.query_dim = shape_.score.key_dim = shape_.hidden;
  score_ = ScoreLayer(parameters, name + ".score", shape_.score, name);
  if (seen.cells() > 0)
    bias_ = parameters.add(name + ".bias", {shape_.heads, 2 * seen.rows - 1, 2 * seen.cols - 1}, Initial::constant(0));
}

template <class T>
std::vector<Tensor<T>> SharedAttention::operator()(Graph<T>& graph, const Tensor<T>& map_from,
                                                   std::span<const Tensor<T>> tasks, T* weights) const {
  if (static_cast<std::int64_t>(tasks.size()) != shape_.tasks)
    throw Error("shared attention: expected " + counted(shape_.tasks, "task") + ", got " +
                std::to_string(tasks.size()));
  const std::int64_t window = shape_.window;
  const auto heads_of = [&](const Tensor<T>& x) {
    return (window > 0 ? to_windows(graph.tape, x, shape_.grid, window) : x).split_heads(shape_.heads);
  };
  const Tensor<T> q = heads_of(query_(graph, map_from));
  const Tensor<T> k = shape_.one_projection ? q : heads_of(key_(graph, map_from));
  std::vector<Tensor<T>> values;
  for (std::size_t t = 0; t < tasks.size(); ++t)
    values.push_back(heads_of(tasks_[t].value(graph, shape_.norm ? tasks_[t].norm(graph, tasks[t]) : tasks[t])));
  Tensor<T> bias;
  if (bias_) bias = grid_bias(graph.tape, graph.get(bias_), window > 0 ? Grid{window, window} : shape_.grid);
  std::vector<Tensor<T>> results = score_.template shared<T>(graph, q, k, values, bias, {.weights = weights});
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (window > 0) results[t] = from_windows(graph.tape, results[t], shape_.grid, window);
    results[t] = add(graph.tape, tasks[t], tasks_[t].out(graph, results[t]));
  }
  return results;
}

std::int64_t SharedAttention::multiply_adds(std::int64_t steps) const {
  const std::int64_t asked = shape_.heads * shape_.hidden;
  const std::int64_t valued = shape_.heads * shape_.value_dim;
  const std::int64_t seen = shape_.window > 0 ? shape_.window * shape_.window : steps;
  return steps * (shape_.map_in * asked * (shape_.one_projection ? 1 : 2) + 2 * shape_.tasks * shape_.width * valued +
                  seen * (asked + shape_.tasks * valued));
}

#define RAPT_INSTANTIATE(T)                                                                                            \
  template std::vector<Tensor<T>> SharedAttention::operator()(Graph<T>&, const Tensor<T>&, std::span<const Tensor<T>>, \
                                                              T*) const;
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::inline v1::layers
