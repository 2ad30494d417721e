#pragma once

#include <string>
#include <vector>

#include "layers/graph.h"
#include "tensor/recurrent.h"

namespace rapt::inline v1::layers {

struct RecurrentShape {
  Cell cell = Cell::lstm;
  std::int64_t in = 0;
  std::int64_t hidden = 0;  // of the output; two directions share it
  int layers = 1;
  bool bidirectional = false;
  double dropout = 0;  // between the layers
};

template <class T>
struct RecurrentOutput {
  Tensor<T> states;                // [steps, batch, hidden] of the last layer
  std::vector<CellState<T>> last;  // of each layer; the two directions side by side
};

// What each symbol's embedding adds to the gates of the first layer: [symbols, gates·hidden] for each direction.
template <class T>
struct SymbolTables {
  Tensor<T> ahead;
  Tensor<T> back;

  explicit operator bool() const { return static_cast<bool>(ahead); }
};

// RNN, LSTM or GRU layers over whole sequences, in one or both directions.
class Recurrent {
 public:
  Recurrent() = default;
  // Throws if two directions are to share an odd number of hidden units.
  Recurrent(Parameters& parameters, const std::string& name, const RecurrentShape& shape);

  const RecurrentShape& shape() const { return shape_; }

  // `initial`: a state per layer, or none for zeros; for one direction only.
  template <class T>
  RecurrentOutput<T> operator()(Graph<T>& graph, const Tensor<T>& x, std::span<const std::int64_t> lengths,
                                std::span<const CellState<T>> initial = {}) const;

  // The same over symbols, with one product per symbol of the vocabulary instead of one per step.
  template <class T>
  SymbolTables<T> tables(Graph<T>& graph, const Tensor<T>& embedding) const;
  template <class T>
  RecurrentOutput<T> operator()(Graph<T>& graph, const SymbolTables<T>& tables, std::span<const int> ids,
                                std::int64_t batch, std::span<const std::int64_t> lengths,
                                std::span<const CellState<T>> initial = {}) const;

 private:
  struct Weights {
    ParameterId input, recurrent, bias, recurrent_bias;
  };
  template <class T>
  CellWeights<T> get(Graph<T>& graph, const Weights& w) const;
  // first(weights of a direction, state, direction): what the first layer does with its input.
  template <class T, class F>
  RecurrentOutput<T> all_layers(Graph<T>& graph, std::span<const std::int64_t> lengths,
                                std::span<const CellState<T>> initial, F&& first) const;

  RecurrentShape shape_;
  std::vector<Weights> weights_;  // [layers][directions]
};

}  // namespace rapt::inline v1::layers
