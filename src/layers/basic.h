#pragma once

#include <string>

#include "layers/graph.h"

// The small layers that all models are made of. A layer names its parameters once; calling it computes.
namespace rapt::inline v1::layers {

class Linear {
 public:
  Linear() = default;
  Linear(Parameters& parameters, const std::string& name, std::int64_t in, std::int64_t out, bool bias = true);

  template <class T>
  Tensor<T> operator()(Graph<T>& graph, const Tensor<T>& x) const;
  // What an activation makes of it.
  template <class T>
  Tensor<T> activated(Graph<T>& graph, const Tensor<T>& x, Activation kind) const {
    return linear_activated(graph.tape, x, graph.get(weight_), bias_ ? graph.get(bias_) : Tensor<T>{}, kind);
  }
  // x [heads, rows, in / heads]: the same numbers with the heads apart.
  template <class T>
  Tensor<T> of_heads(Graph<T>& graph, const Tensor<T>& x) const {
    return linear_of_heads(graph.tape, x, graph.get(weight_), graph.get(bias_));
  }

 private:
  ParameterId weight_, bias_;
};

class Embedding {
 public:
  Embedding() = default;
  Embedding(Parameters& parameters, const std::string& name, std::int64_t symbols, std::int64_t width);

  template <class T>
  Tensor<T> operator()(Graph<T>& graph, std::span<const int> ids, std::int64_t batch) const;
  // All rows, [symbols, width].
  template <class T>
  Tensor<T> table(Graph<T>& graph) const {
    return graph.get(table_);
  }
  // x·tableᵀ: scores of all symbols.
  template <class T>
  Tensor<T> scores(Graph<T>& graph, const Tensor<T>& x) const;

 private:
  ParameterId table_;
};

class LayerNorm {
 public:
  LayerNorm() = default;
  LayerNorm(Parameters& parameters, const std::string& name, std::int64_t width);

  template <class T>
  Tensor<T> operator()(Graph<T>& graph, const Tensor<T>& x) const;

 private:
  ParameterId gain_, bias_;
};

// Norms over groups of channels within one image, so that an image's result does not depend on the rest of its batch.
class GroupNorm {
 public:
  GroupNorm() = default;
  // Throws if the number of groups does not divide the channels.
  GroupNorm(Parameters& parameters, const std::string& name, std::int64_t channels, std::int64_t groups);

  // x [N, .., channels]
  template <class T>
  Tensor<T> operator()(Graph<T>& graph, const Tensor<T>& x) const;

 private:
  ParameterId gain_, bias_;
  std::int64_t groups_ = 1;
};

// Two linear layers with an activation and dropout between them.
class Mlp {
 public:
  Mlp() = default;
  Mlp(Parameters& parameters, const std::string& name, std::int64_t width, std::int64_t inner, std::int64_t out,
      Activation activation, double dropout);

  template <class T>
  Tensor<T> operator()(Graph<T>& graph, const Tensor<T>& x) const;

 private:
  Linear first_, second_;
  Activation activation_ = Activation::relu;
  double dropout_ = 0;
};

}  // namespace rapt::inline v1::layers
