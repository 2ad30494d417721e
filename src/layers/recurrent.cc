#include "layers/recurrent.h"

#include <array>
#include <cmath>

#include "rapt/error.h"

namespace rapt::inline v1::layers {

Recurrent::Recurrent(Parameters& parameters, const std::string& name, const RecurrentShape& shape) : shape_(shape) {
  const int directions = shape.bidirectional ? 2 : 1;
  if (shape.hidden % directions != 0)
    throw Error(name + ": expected an even number of hidden units for two directions, got " +
                std::to_string(shape.hidden));
  const std::int64_t hidden = shape.hidden / directions;
  const std::int64_t width = gates_of(shape.cell) * hidden;
  const Initial initial = Initial::uniform(1 / std::sqrt(static_cast<double>(hidden)));
  for (int layer = 0; layer < shape.layers; ++layer)
    for (int d = 0; d < directions; ++d) {
      const std::string prefix = name + "." + std::to_string(layer) + (d == 1 ? ".backward" : ".forward");
      const std::int64_t in = layer == 0 ? shape.in : shape.hidden;
      Weights w;
      w.input = parameters.add(prefix + ".input", {in, width}, initial);
      w.recurrent = parameters.add(prefix + ".recurrent", {hidden, width}, initial);
      w.bias = parameters.add(prefix + ".bias", {width}, Initial::constant(0));
      if (shape.cell == Cell::gru)
        w.recurrent_bias = parameters.add(prefix + ".recurrent_bias", {width}, Initial::constant(0));
      weights_.push_back(w);
    }
}

template <class T>
CellWeights<T> Recurrent::get(Graph<T>& graph, const Weights& w) const {
  return {graph.get(w.input), graph.get(w.recurrent), graph.get(w.bias),
          w.recurrent_bias ? graph.get(w.recurrent_bias) : Tensor<T>{}};
}

template <class T, class F>
RecurrentOutput<T> Recurrent::all_layers(Graph<T>& graph, std::span<const std::int64_t> lengths,
                                         std::span<const CellState<T>> initial, F&& first) const {
  if (!initial.empty() && (shape_.bidirectional || static_cast<int>(initial.size()) != shape_.layers))
    throw Error("recurrent: expected one first state for each layer of one direction, got " +
                std::to_string(initial.size()));
  RecurrentOutput<T> output;
  Tensor<T> in;
  const auto both = [&](const Tensor<T>& a, const Tensor<T>& b) {
    const std::array<Tensor<T>, 2> parts{a, b};
    return concatenate<T>(graph.tape, parts);
  };
  for (int layer = 0; layer < shape_.layers; ++layer) {
    if (layer > 0) in = graph.dropout(in, shape_.dropout);
    const auto run = [&](std::size_t place, const CellState<T>& state, Direction direction) {
      const CellWeights<T> weights = get(graph, weights_[place]);
      return layer == 0 ? first(weights, state, direction)
                        : recurrent(graph.tape, shape_.cell, in, weights, state, lengths, direction);
    };
    const std::size_t place = static_cast<std::size_t>(layer) * (shape_.bidirectional ? 2 : 1);
    const CellState<T> state = initial.empty() ? CellState<T>{} : initial[static_cast<std::size_t>(layer)];
    const RecurrentResult<T> ahead = run(place, state, Direction::forward);
    if (!shape_.bidirectional) {
      in = ahead.states;
      output.last.push_back(ahead.last);
      continue;
    }
    const RecurrentResult<T> back = run(place + 1, {}, Direction::backward);
    in = both(ahead.states, back.states);
    output.last.push_back(
        {both(ahead.last.h, back.last.h), shape_.cell == Cell::lstm ? both(ahead.last.c, back.last.c) : Tensor<T>{}});
  }
  output.states = in;
  return output;
}

template <class T>
RecurrentOutput<T> Recurrent::operator()(Graph<T>& graph, const Tensor<T>& x, std::span<const std::int64_t> lengths,
                                         std::span<const CellState<T>> initial) const {
  return all_layers(graph, lengths, initial,
                    [&](const CellWeights<T>& weights, const CellState<T>& state, Direction direction) {
                      return recurrent(graph.tape, shape_.cell, x, weights, state, lengths, direction);
                    });
}

template <class T>
SymbolTables<T> Recurrent::tables(Graph<T>& graph, const Tensor<T>& embedding) const {
  const auto of = [&](const Weights& w) {
    return linear(graph.tape, embedding, graph.get(w.input), graph.get(w.bias));
  };
  return {of(weights_[0]), shape_.bidirectional ? of(weights_[1]) : Tensor<T>{}};
}

template <class T>
RecurrentOutput<T> Recurrent::operator()(Graph<T>& graph, const SymbolTables<T>& tables, std::span<const int> ids,
                                         std::int64_t batch, std::span<const std::int64_t> lengths,
                                         std::span<const CellState<T>> initial) const {
  return all_layers(
      graph, lengths, initial, [&](const CellWeights<T>& weights, const CellState<T>& state, Direction direction) {
        const Tensor<T>& table = direction == Direction::forward ? tables.ahead : tables.back;
        return recurrent_of_symbols(graph.tape, shape_.cell, table, ids, batch, weights, state, lengths, direction);
      });
}

#define RAPT_INSTANTIATE(T)                                                                                     \
  template RecurrentOutput<T> Recurrent::operator()(Graph<T>&, const Tensor<T>&, std::span<const std::int64_t>, \
                                                    std::span<const CellState<T>>) const;                       \
  template SymbolTables<T> Recurrent::tables(Graph<T>&, const Tensor<T>&) const;                                \
  template RecurrentOutput<T> Recurrent::operator()(Graph<T>&, const SymbolTables<T>&, std::span<const int>,    \
                                                    std::int64_t, std::span<const std::int64_t>,                \
                                                    std::span<const CellState<T>>) const;
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::inline v1::layers
