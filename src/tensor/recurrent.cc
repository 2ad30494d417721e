#include "tensor/recurrent.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tensor/pack_cache.h"

namespace rapt::inline v1 {
namespace {

// Everything that the backward pass reads of one run over a sequence.
template <class T>
struct Run {
  Cell cell = Cell::rnn;
  Direction direction = Direction::forward;
  std::int64_t steps = 0, batch = 0, hidden = 0, width = 0;  // width = gates·hidden
  Tensor<T> x;                                               // or, where it is empty, rows of the table that ids name
  Tensor<T> table;
  std::span<const int> ids;
  CellWeights<T> weights;
  CellState<T> initial;
  const T* zeros = nullptr;  // [batch, hidden]
  Tensor<T> states;
  Tensor<T> cells;
  T* gates = nullptr;        // [steps, batch, width]
  T* hidden_part = nullptr;  // the same, GRU
  T* c_tanh = nullptr;       // [steps, batch, hidden]
  const std::uint8_t* live = nullptr;

  // Time of the n-th step.
  std::int64_t time(std::int64_t n) const { return direction == Direction::forward ? n : steps - 1 - n; }
  std::int64_t state_size() const { return batch * hidden; }
  const T* h_before(std::int64_t n) const {
    if (n > 0) return states.data + time(n - 1) * state_size();
    return initial.h ? initial.h.data : zeros;
  }
  const T* c_before(std::int64_t n) const {
    if (cell != Cell::lstm) return nullptr;
    if (n > 0) return cells.data + time(n - 1) * state_size();
    return initial.c ? initial.c.data : zeros;
  }
  const std::uint8_t* live_at(std::int64_t t) const { return live ? live + t * batch : nullptr; }
  Factor<T> rows(const T* data, std::int64_t count, std::int64_t cols) const { return {data, count, cols, cols, 1}; }
};

template <class T>
void add_rows(const T* rows, std::int64_t count, std::int64_t width, T* sums) {
  for (std::int64_t r = 0; r < count; ++r) tensor_kernels<T>().add(rows + r * width, sums, width);
}

template <class T>
void fill_rows(const Tensor<T>& row, std::int64_t count, std::int64_t width, T* to) {
  for (std::int64_t r = 0; r < count; ++r)
    std::memcpy(to + r * width, row.data, static_cast<std::size_t>(width) * sizeof(T));
}

template <class T>
void step_forward(const Run<T>& run, std::int64_t n) {
  const std::int64_t t = run.time(n);
  CellArgs<T> args;
  args.rows = run.batch;
  args.hidden = run.hidden;
  args.live = run.live_at(t);
  args.gates = run.gates + t * run.batch * run.width;
  args.hidden_part = run.hidden_part ? run.hidden_part + t * run.batch * run.width : nullptr;
  args.h_before = run.h_before(n);
  args.c_before = run.c_before(n);
  args.h = run.states.data + t * run.state_size();
  if (run.cell == Cell::lstm) {
    args.c = run.cells.data + t * run.state_size();
    args.c_tanh = run.c_tanh + t * run.state_size();
  }
  const TensorKernels<T>& kernels = tensor_kernels<T>();
  (run.cell == Cell::lstm ? kernels.lstm : run.cell == Cell::gru ? kernels.gru : kernels.rnn)(args);
}

template <class T>
void forward(Tape<T>& tape, Run<T>& run) {
  const std::int64_t rows = run.steps * run.batch;
  run.gates = tape.scratch(rows * run.width);
  if (run.x) {
    multiply(tape, factor(as_matrix(run.x)), factor(as_matrix(run.weights.input)),
             {run.gates, run.width, false, run.weights.bias.data});
  } else {
    for (std::int64_t r = 0; r < rows; ++r)
      std::memcpy(run.gates + r * run.width, run.table.data + run.ids[static_cast<std::size_t>(r)] * run.width,
                  static_cast<std::size_t>(run.width) * sizeof(T));
  }
  if (run.cell == Cell::gru) {
    run.hidden_part = tape.scratch(rows * run.width);
    fill_rows(run.weights.recurrent_bias, rows, run.width, run.hidden_part);
  }
  if (run.cell == Cell::lstm) run.c_tanh = tape.scratch(run.steps * run.state_size());
  const Factor<T> matrix = factor(as_matrix(run.weights.recurrent));
  const std::optional<Packed<T>> kept = tape.packs() ? tape.packs()->get(matrix) : std::nullopt;
  const Packed<T> packed = kept ? *kept : Packed<T>(matrix, tape.scratch(Packed<T>::size(matrix)));
  T* sums = run.cell == Cell::gru ? run.hidden_part : run.gates;
  for (std::int64_t n = 0; n < run.steps; ++n) {
    if (n > 0 || run.initial.h)
      packed.multiply(run.rows(run.h_before(n), run.batch, run.hidden), sums + run.time(n) * run.batch * run.width,
                      run.width, true);
    step_forward(run, n);
  }
}

template <class T>
struct StepGradients {
  T* dh;
  T* dc;
  T* dgates;  // [steps, batch, width]
  T* dpart;
};

template <class T>
void step_backward(const Run<T>& run, std::int64_t n, const StepGradients<T>& grads) {
  const std::int64_t t = run.time(n);
  const TensorKernels<T>& kernels = tensor_kernels<T>();
  kernels.add(run.states.grad + t * run.state_size(), grads.dh, run.state_size());
  if (run.cell == Cell::lstm && n == run.steps - 1)
    kernels.add(run.cells.grad + t * run.state_size(), grads.dc, run.state_size());
  CellGradArgs<T> args;
  args.rows = run.batch;
  args.hidden = run.hidden;
  args.live = run.live_at(t);
  args.gates = run.gates + t * run.batch * run.width;
  args.hidden_part = run.hidden_part ? run.hidden_part + t * run.batch * run.width : nullptr;
  args.h_before = run.h_before(n);
  args.c_before = run.c_before(n);
  args.h = run.states.data + t * run.state_size();
  args.c_tanh = run.c_tanh ? run.c_tanh + t * run.state_size() : nullptr;
  args.dh = grads.dh;
  args.dc = grads.dc;
  args.dgates = grads.dgates + t * run.batch * run.width;
  args.dhidden_part = grads.dpart ? grads.dpart + t * run.batch * run.width : nullptr;
  (run.cell == Cell::lstm  ? kernels.lstm_backward
   : run.cell == Cell::gru ? kernels.gru_backward
                           : kernels.rnn_backward)(args);
}

template <class T>
void input_gradients(const Run<T>& run, const StepGradients<T>& grads) {
  const std::int64_t rows = run.steps * run.batch;
  if (!run.x) {
    for (std::int64_t r = 0; run.table.grad && r < rows; ++r)
      tensor_kernels<T>().add(grads.dgates + r * run.width,
                              run.table.grad + run.ids[static_cast<std::size_t>(r)] * run.width, run.width);
    return;
  }
  const Matrix<T> x = as_matrix(run.x);
  const Matrix<T> input = as_matrix(run.weights.input);
  const Factor<T> dgates = run.rows(grads.dgates, rows, run.width);
  if (x.grad) multiply(dgates, factor(input).transposed(), x.grad, x.stride, true);
  if (input.grad) multiply(factor(x).transposed(), dgates, input.grad, input.stride, true);
  if (run.weights.bias.grad) add_rows(grads.dgates, rows, run.width, run.weights.bias.grad);
}

template <class T>
void weight_gradients(const Run<T>& run, const StepGradients<T>& grads) {
  const std::int64_t rows = run.steps * run.batch;
  input_gradients(run, grads);
  const T* dsums = grads.dpart ? grads.dpart : grads.dgates;
  if (grads.dpart && run.weights.recurrent_bias.grad)
    add_rows(grads.dpart, rows, run.width, run.weights.recurrent_bias.grad);
  const Matrix<T> matrix = as_matrix(run.weights.recurrent);
  if (!matrix.grad) return;
  // The states before the steps are those of their neighbours in time: one product for all.
  const bool ahead = run.direction == Direction::forward;
  const std::int64_t others = (run.steps - 1) * run.batch;
  const Factor<T> before = run.rows(run.states.data + (ahead ? 0 : run.state_size()), others, run.hidden);
  const Factor<T> after = run.rows(dsums + (ahead ? run.batch * run.width : 0), others, run.width);
  if (others > 0) multiply(before.transposed(), after, matrix.grad, matrix.stride, true);
  if (run.initial.h)
    multiply(run.rows(run.initial.h.data, run.batch, run.hidden).transposed(),
             run.rows(dsums + run.time(0) * run.batch * run.width, run.batch, run.width), matrix.grad, matrix.stride,
             true);
}

template <class T>
void backward(Tape<T>& tape, const Run<T>& run) {
  const std::int64_t size = run.state_size();
  StepGradients<T> grads{tape.scratch(size), tape.scratch(size), tape.scratch(run.steps * run.batch * run.width),
                         nullptr};
  std::fill_n(grads.dh, size, T(0));
  std::fill_n(grads.dc, size, T(0));
  if (run.cell == Cell::gru) grads.dpart = tape.scratch(run.steps * run.batch * run.width);
  const T* dsums = grads.dpart ? grads.dpart : grads.dgates;
  const Factor<T> matrix = factor(as_matrix(run.weights.recurrent)).transposed();
  const Packed<T> packed(matrix, tape.scratch(Packed<T>::size(matrix)));
  for (std::int64_t n = run.steps - 1; n >= 0; --n) {
    step_backward(run, n, grads);
    if (n > 0 || (run.initial.h && run.initial.h.grad))
      packed.multiply(run.rows(dsums + run.time(n) * run.batch * run.width, run.batch, run.width), grads.dh, run.hidden,
                      true);
  }
  if (run.initial.h && run.initial.h.grad) tensor_kernels<T>().add(grads.dh, run.initial.h.grad, size);
  if (run.initial.c && run.initial.c.grad) tensor_kernels<T>().add(grads.dc, run.initial.c.grad, size);
  weight_gradients(run, grads);
}

[[noreturn]] void fail(const std::string& what) { throw Error("recurrent: " + what); }

template <class T>
void check_input(const Run<T>& run) {
  const CellWeights<T>& w = run.weights;
  const Tensor<T>& x = run.x;
  if (x.rank != 3) fail("expected x [steps, batch, in], got " + to_string(x));
  if (w.input.size(0) != x.size(2) || w.input.size(1) != run.width || w.recurrent.size(1) != run.width || !w.bias ||
      w.bias.count() != run.width)
    fail("expected weights that fit x " + to_string(x) + ", got " + to_string(w.input) + " and " +
         to_string(w.recurrent));
}

template <class T>
void check_symbols(const Run<T>& run) {
  const Tensor<T>& table = run.table;
  if (table.rank != 2 || table.size(1) != run.width || run.weights.recurrent.size(1) != run.width)
    fail("expected a table with a row of all gates for each symbol, got " + to_string(table) + " and weights " +
         to_string(run.weights.recurrent));
  if (run.batch < 1 || static_cast<std::int64_t>(run.ids.size()) != run.steps * run.batch)
    fail("expected a number of ids that is a multiple of the batch, " + std::to_string(run.batch) + ", got " +
         std::to_string(run.ids.size()));
  for (const int id : run.ids)
    if (id < 0 || id >= table.size(0))
      fail("expected ids from 0 to " + std::to_string(table.size(0) - 1) + ", got " + std::to_string(id));
}

template <class T>
void check(const Run<T>& run, std::span<const std::int64_t> lengths) {
  const CellWeights<T>& w = run.weights;
  if (run.steps < 1) fail("expected a sequence of at least one step, got none");
  if (run.cell == Cell::gru && (!w.recurrent_bias || w.recurrent_bias.count() != run.width))
    fail("expected a recurrent bias [" + std::to_string(run.width) + "], got " + to_string(w.recurrent_bias));
  if (!lengths.empty() && static_cast<std::int64_t>(lengths.size()) != run.batch)
    fail("expected " + counted(run.batch, "length") + ", got " + std::to_string(lengths.size()));
  for (const std::int64_t length : lengths)
    if (length < 0 || length > run.steps)
      fail("expected lengths from 0 to " + std::to_string(run.steps) + ", got " + std::to_string(length));
  for (const Tensor<T>& state : {run.initial.h, run.initial.c})
    if (state && (state.count() != run.state_size() || !state.is_contiguous()))
      fail("expected a contiguous first state [batch, hidden], got " + to_string(state));
}

template <class T>
Run<T> make_run(Cell cell, const CellWeights<T>& weights, const CellState<T>& initial, Direction direction) {
  Run<T> run;
  run.cell = cell;
  run.direction = direction;
  run.hidden = weights.recurrent.size(0);
  run.width = gates_of(cell) * run.hidden;
  run.weights = weights;
  run.initial = initial;
  return run;
}

template <class T>
RecurrentResult<T> carry_out(Tape<T>& tape, Run<T>& run, std::span<const std::int64_t> lengths) {
  check(run, lengths);
  T* zeros = tape.scratch(run.state_size());
  std::fill_n(zeros, run.state_size(), T(0));
  run.zeros = zeros;
  if (std::any_of(lengths.begin(), lengths.end(), [&](std::int64_t length) { return length < run.steps; })) {
    auto* live = tape.template scratch<std::uint8_t>(run.steps * run.batch);
    for (std::int64_t t = 0; t < run.steps; ++t)
      for (std::int64_t b = 0; b < run.batch; ++b)
        live[t * run.batch + b] = t < lengths[static_cast<std::size_t>(b)] ? 1 : 0;
    run.live = live;
  }
  run.states = tape.make({run.steps, run.batch, run.hidden});
  if (run.cell == Cell::lstm) run.cells = tape.make({run.steps, run.batch, run.hidden});
  forward(tape, run);
  tape.record([&tape, run] { backward(tape, run); });
  const std::int64_t last = run.time(run.steps - 1);
  return {run.states, {run.states.at(last), run.cell == Cell::lstm ? run.cells.at(last) : Tensor<T>{}}};
}

}  // namespace

template <class T>
RecurrentResult<T> recurrent(Tape<T>& tape, Cell cell, const Tensor<T>& x, const CellWeights<T>& weights,
                             const CellState<T>& initial, std::span<const std::int64_t> lengths, Direction direction) {
  Run<T> run = make_run(cell, weights, initial, direction);
  run.x = x;
  check_input(run);
  run.steps = x.size(0);
  run.batch = x.size(1);
  return carry_out(tape, run, lengths);
}

template <class T>
RecurrentResult<T> recurrent_of_symbols(Tape<T>& tape, Cell cell, const Tensor<T>& table, std::span<const int> ids,
                                        std::int64_t batch, const CellWeights<T>& weights, const CellState<T>& initial,
                                        std::span<const std::int64_t> lengths, Direction direction) {
  Run<T> run = make_run(cell, weights, initial, direction);
  run.table = table;
  run.batch = batch;
  run.steps = batch > 0 ? static_cast<std::int64_t>(ids.size()) / batch : 0;
  run.ids = tape.keep(ids);
  check_symbols(run);
  return carry_out(tape, run, lengths);
}

#define RAPT_INSTANTIATE(T)                                                                                           \
  template RecurrentResult<T> recurrent(Tape<T>&, Cell, const Tensor<T>&, const CellWeights<T>&, const CellState<T>&, \
                                        std::span<const std::int64_t>, Direction);                                    \
  template RecurrentResult<T> recurrent_of_symbols(Tape<T>&, Cell, const Tensor<T>&, std::span<const int>,            \
                                                   std::int64_t, const CellWeights<T>&, const CellState<T>&,          \
                                                   std::span<const std::int64_t>, Direction);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::inline v1
