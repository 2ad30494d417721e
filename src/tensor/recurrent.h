#pragma once

#include <cstdint>
#include <span>

#include "tensor/tape.h"

namespace rapt::inline v1 {

enum class Cell : std::uint8_t { rnn, gru, lstm };

constexpr std::int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

template <class T>
struct CellWeights {
  Tensor<T> input;           // [in, gates·hidden]; LSTM: input, forget, cell, output; GRU: reset, update, new
  Tensor<T> recurrent;       // [hidden, gates·hidden]
  Tensor<T> bias;            // [gates·hidden]
  Tensor<T> recurrent_bias;  // [gates·hidden], GRU only: its new gate resets the recurrent part with its bias
};

// [batch, hidden] each; c for an LSTM only. Empty: zeros.
template <class T>
struct CellState {
  Tensor<T> h;
  Tensor<T> c;
};

template <class T>
struct RecurrentResult {
  Tensor<T> states;   // [steps, batch, hidden]
  CellState<T> last;  // after the last step of each sequence
};

enum class Direction : std::uint8_t { forward, backward };

// A whole sequence through one cell: x [steps, batch, in]. A sequence keeps its state after its own length; in reverse,
// it starts at its own end. No lengths: all are full.
template <class T>
RecurrentResult<T> recurrent(Tape<T>& tape, Cell cell, const Tensor<T>& x, const CellWeights<T>& weights,
                             const CellState<T>& initial, std::span<const std::int64_t> lengths, Direction direction);

// The same for embedded ids: table [symbols, gates·hidden] is embedding·input + bias, computed once per symbol, and ids
// index its rows. Only the recurrent weights are used. The bits are the same.
template <class T>
RecurrentResult<T> recurrent_of_symbols(Tape<T>& tape, Cell cell, const Tensor<T>& table, std::span<const int> ids,
                                        std::int64_t batch, const CellWeights<T>& weights, const CellState<T>& initial,
                                        std::span<const std::int64_t> lengths, Direction direction);

}  // namespace rapt::inline v1
