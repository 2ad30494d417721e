#include "layers/basic.h"

#include <cmath>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tensor/group_norm.h"

namespace rapt::inline v1::layers {

Linear::Linear(Parameters& parameters, const std::string& name, std::int64_t in, std::int64_t out, bool bias)
    : weight_(parameters.add(name + ".weight", {in, out}, Initial::xavier(in, out))) {
  if (bias) bias_ = parameters.add(name + ".bias", {out}, Initial::constant(0));
}

template <class T>
Tensor<T> Linear::operator()(Graph<T>& graph, const Tensor<T>& x) const {
  return linear(graph.tape, x, graph.get(weight_), bias_ ? graph.get(bias_) : Tensor<T>{});
}

Embedding::Embedding(Parameters& parameters, const std::string& name, std::int64_t symbols, std::int64_t width)
    : table_(parameters.add(name, {symbols, width}, Initial::normal(1 / std::sqrt(static_cast<double>(width))))) {}

template <class T>
Tensor<T> Embedding::operator()(Graph<T>& graph, std::span<const int> ids, std::int64_t batch) const {
  return embed(graph.tape, graph.get(table_), ids, batch);
}

template <class T>
Tensor<T> Embedding::scores(Graph<T>& graph, const Tensor<T>& x) const {
  return linear_transposed(graph.tape, x, graph.get(table_));
}

LayerNorm::LayerNorm(Parameters& parameters, const std::string& name, std::int64_t width)
    : gain_(parameters.add(name + ".gain", {width}, Initial::constant(1))),
      bias_(parameters.add(name + ".bias", {width}, Initial::constant(0))) {}

template <class T>
Tensor<T> LayerNorm::operator()(Graph<T>& graph, const Tensor<T>& x) const {
  return layer_norm(graph.tape, x, graph.get(gain_), graph.get(bias_));
}

GroupNorm::GroupNorm(Parameters& parameters, const std::string& name, std::int64_t channels, std::int64_t groups)
    : groups_(groups) {
  if (groups < 1 || channels % groups != 0)
    throw Error(name + ": expected a number of groups that divides the channels, got " + std::to_string(channels) +
                " channels and " + counted(groups, "group"));
  gain_ = parameters.add(name + ".gain", {channels}, Initial::constant(1));
  bias_ = parameters.add(name + ".bias", {channels}, Initial::constant(0));
}

template <class T>
Tensor<T> GroupNorm::operator()(Graph<T>& graph, const Tensor<T>& x) const {
  return group_norm(graph.tape, x, graph.get(gain_), graph.get(bias_), groups_);
}

Mlp::Mlp(Parameters& parameters, const std::string& name, std::int64_t width, std::int64_t inner, std::int64_t out,
         Activation activation, double dropout)
    : first_(parameters, name + ".first", width, inner),
      second_(parameters, name + ".second", inner, out),
      activation_(activation),
      dropout_(dropout) {}

template <class T>
Tensor<T> Mlp::operator()(Graph<T>& graph, const Tensor<T>& x) const {
  return second_(graph, graph.dropout(first_.activated(graph, x, activation_), dropout_));
}

#define RAPT_INSTANTIATE(T)                                                                      \
  template Tensor<T> Linear::operator()(Graph<T>&, const Tensor<T>&) const;                      \
  template Tensor<T> Embedding::operator()(Graph<T>&, std::span<const int>, std::int64_t) const; \
  template Tensor<T> Embedding::scores(Graph<T>&, const Tensor<T>&) const;                       \
  template Tensor<T> LayerNorm::operator()(Graph<T>&, const Tensor<T>&) const;                   \
  template Tensor<T> GroupNorm::operator()(Graph<T>&, const Tensor<T>&) const;                   \
  template Tensor<T> Mlp::operator()(Graph<T>&, const Tensor<T>&) const;
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::inline v1::layers
