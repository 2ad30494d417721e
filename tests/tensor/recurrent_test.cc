#include "tensor/recurrent.h"

#include <cmath>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/tensors.h"

namespace rapt::test {
namespace {

using std::int64_t;
using support::Input;
using support::random_input;
using Numbers = std::vector<double>;

struct Case {
  Cell cell;
  Direction direction;
  std::vector<int64_t> lengths;  // empty: all full
  bool initial;
  int64_t steps, batch, in, hidden;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// One sequence at a time, one unit at a time, by the textbook's formulas. Inputs as in inputs_of().
struct Plain {
  const Case& c;
  const std::vector<Input>& inputs;

  const double* of(const std::string& name) const {
    for (const Input& i : inputs)
      if (i.name == name) return i.values.data();
    return nullptr;
  }

  // x·W + h·U + b of one gate's unit; the parts apart, for the GRU.
  std::pair<double, double> sums(const double* x, const Numbers& h, int64_t gate, int64_t unit) const {
    const int64_t width = gates_of(c.cell) * c.hidden;
    const int64_t column = gate * c.hidden + unit;
    double from_input = of("bias")[column];
    for (int64_t n = 0; n < c.in; ++n) from_input += x[n] * of("input")[n * width + column];
    double from_state = c.cell == Cell::gru ? of("recurrent_bias")[column] : 0;
    for (int64_t n = 0; n < c.hidden; ++n)
      from_state += h[static_cast<std::size_t>(n)] * of("recurrent")[n * width + column];
    return {from_input, from_state};
  }

  void step(const double* x, Numbers& h, Numbers& cell) const {
    const Numbers before = h;
    for (int64_t u = 0; u < c.hidden; ++u) {
      const auto n = static_cast<std::size_t>(u);
      const auto sum = [&](int64_t gate) {
        const auto [a, b] = sums(x, before, gate, u);
        return a + b;
      };
      if (c.cell == Cell::rnn) {
        h[n] = std::tanh(sum(0));
      } else if (c.cell == Cell::lstm) {
        cell[n] = sigmoid(sum(1)) * cell[n] + sigmoid(sum(0)) * std::tanh(sum(2));
        h[n] = sigmoid(sum(3)) * std::tanh(cell[n]);
      } else {
        const auto [a, b] = sums(x, before, 2, u);
        const double z = sigmoid(sum(1));
        h[n] = (1 - z) * std::tanh(a + sigmoid(sum(0)) * b) + z * before[n];
      }
    }
  }

  // states [steps, batch, hidden], last h, last c.
  std::vector<Numbers> result() const {
    const int64_t size = c.batch * c.hidden;
    std::vector<Numbers> out{Numbers(static_cast<std::size_t>(c.steps * size)), Numbers(static_cast<std::size_t>(size)),
                             Numbers(static_cast<std::size_t>(c.cell == Cell::lstm ? size : 0))};
    for (int64_t b = 0; b < c.batch; ++b) {
      Numbers h(static_cast<std::size_t>(c.hidden));
      Numbers cell = h;
      if (c.initial) {
        std::copy_n(of("h") + b * c.hidden, c.hidden, h.begin());
        if (c.cell == Cell::lstm) std::copy_n(of("c") + b * c.hidden, c.hidden, cell.begin());
      }
      const int64_t length = c.lengths.empty() ? c.steps : c.lengths[static_cast<std::size_t>(b)];
      for (int64_t n = 0; n < c.steps; ++n) {
        const int64_t t = c.direction == Direction::forward ? n : c.steps - 1 - n;
        if (t < length) step(of("x") + (t * c.batch + b) * c.in, h, cell);
        std::copy(h.begin(), h.end(), out[0].begin() + t * size + b * c.hidden);
      }
      std::copy(h.begin(), h.end(), out[1].begin() + b * c.hidden);
      if (c.cell == Cell::lstm) std::copy(cell.begin(), cell.end(), out[2].begin() + b * c.hidden);
    }
    return out;
  }
};

std::vector<Input> inputs_of(const Case& c) {
  Random random(1, static_cast<int>(c.cell), c.hidden);
  const int64_t width = gates_of(c.cell) * c.hidden;
  std::vector<Input> inputs{
      random_input("x", {c.steps, c.batch, c.in}, random), random_input("input", {c.in, width}, random, 0.5),
      random_input("recurrent", {c.hidden, width}, random, 0.5), random_input("bias", {width}, random, 0.5)};
  if (c.cell == Cell::gru) inputs.push_back(random_input("recurrent_bias", {width}, random, 0.5));
  if (c.initial) {
    inputs.push_back(random_input("h", {c.batch, c.hidden}, random, 0.5));
    if (c.cell == Cell::lstm) inputs.push_back(random_input("c", {c.batch, c.hidden}, random, 0.5));
  }
  return inputs;
}

void check(const Case& c) {
  const std::vector<Input> inputs = inputs_of(c);
  const auto compute = [&](auto& tape, const auto& x) {
    using T = std::decay_t<decltype(x[0])>;
    const auto find = [&](const std::string& name) {
      for (std::size_t n = 0; n < inputs.size(); ++n)
        if (inputs[n].name == name) return x[n];
      return T{};
    };
    const auto result = recurrent(tape, c.cell, x[0], {x[1], x[2], x[3], find("recurrent_bias")},
                                  {find("h"), find("c")}, c.lengths, c.direction);
    std::vector<T> outputs{result.states, result.last.h};
    if (c.cell == Cell::lstm) outputs.push_back(result.last.c);
    return outputs;
  };
  support::check_operation(inputs, compute, Plain{c, inputs}.result());
}

class RecurrentCells : public testing::TestWithParam<Cell> {};

TEST_P(RecurrentCells, ValuesAndGradients) {
  for (const Direction direction : {Direction::forward, Direction::backward})
    for (const bool initial : {false, true})
      for (const std::vector<int64_t>& lengths :
           {std::vector<int64_t>{}, std::vector<int64_t>{4, 1, 3}, std::vector<int64_t>{2, 3, 3},
            std::vector<int64_t>{4, 4, 4}, std::vector<int64_t>{0, 2, 4}}) {
        SCOPED_TRACE(std::string(direction == Direction::forward ? "forward" : "backward") +
                     (initial ? ", initial state" : "") + ", lengths " + testing::PrintToString(lengths));
        check({GetParam(), direction, lengths, initial, 4, 3, 5, 3});
        if (HasFatalFailure()) return;
      }
}

TEST_P(RecurrentCells, OddSizes) {
  for (const auto& [steps, batch, in, hidden] :
       {std::tuple{1, 1, 1, 1}, {1, 5, 3, 7}, {3, 2, 1, 9}, {2, 1, 3, 17}, {7, 9, 2, 2}})
    check({GetParam(), Direction::forward, {}, true, steps, batch, in, hidden});
}

// Padding is never read.
TEST_P(RecurrentCells, PaddingDoesNotMatter) {
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    const Case c{GetParam(), direction, {2, 4}, true, 4, 2, 3, 9};
    std::vector<Input> inputs = inputs_of(c);
    const auto states = [&] {
      std::vector<support::Held<float>> held(inputs.begin(), inputs.end());
      Tape<float> tape(false);
      const std::size_t first = GetParam() == Cell::gru ? 5 : 4;
      const CellWeights<float> weights{held[1].tensor(), held[2].tensor(), held[3].tensor(),
                                       GetParam() == Cell::gru ? held[4].tensor() : Tensor<float>{}};
      const CellState<float> initial{held[first].tensor(),
                                     GetParam() == Cell::lstm ? held[first + 1].tensor() : Tensor<float>{}};
      return support::numbers_of(
          recurrent(tape, c.cell, held[0].tensor(), weights, initial, c.lengths, direction).states);
    };
    const Numbers before = states();
    for (const int64_t t : {2, 3})
      for (int64_t n = 0; n < 3; ++n) inputs[0].values[static_cast<std::size_t>(t * 6 + n)] = std::nan("");
    EXPECT_EQ(states(), before);
  }
}

// A sequence has the same bits whatever sequences are beside it.
TEST_P(RecurrentCells, RowsHaveTheSameBitsAlone) {
  const Case c{GetParam(), Direction::forward, {}, false, 5, 11, 7, 33};
  const std::vector<Input> inputs = inputs_of(c);
  std::vector<support::Held<float>> held(inputs.begin(), inputs.end());
  Tape<float> tape(false);
  const CellWeights<float> weights{held[1].tensor(), held[2].tensor(), held[3].tensor(),
                                   GetParam() == Cell::gru ? held[4].tensor() : Tensor<float>{}};
  const Tensor<float> all = recurrent(tape, c.cell, held[0].tensor(), weights, {}, {}, Direction::forward).states;
  for (int64_t b = 0; b < 11; ++b) {
    const Tensor<float> x = tape.make({5, 1, 7});
    for (int64_t t = 0; t < 5; ++t) std::copy_n(held[0].values.data() + (t * 11 + b) * 7, 7, x.data + t * 7);
    const Tensor<float> one = recurrent(tape, c.cell, x, weights, {}, {}, Direction::forward).states;
    for (int64_t t = 0; t < 5; ++t)
      for (int64_t n = 0; n < 33; ++n) ASSERT_EQ(one.data[t * 33 + n], all.data[(t * 11 + b) * 33 + n]);
  }
}

TEST_P(RecurrentCells, BadShapesAreErrors) {
  Tape<float> tape;
  const int64_t width = gates_of(GetParam()) * 4;
  const auto zeros = [&](std::initializer_list<int64_t> sizes) {
    const Tensor<float> t = tape.make(sizes);
    std::fill_n(t.data, t.count(), 0.0F);
    return t;
  };
  const CellWeights<float> good{zeros({3, width}), zeros({4, width}), zeros({width}),
                                GetParam() == Cell::gru ? zeros({width}) : Tensor<float>{}};
  const Tensor<float> x = zeros({5, 2, 3});
  const auto call = [&](const Tensor<float>& input, const CellWeights<float>& w, const CellState<float>& state,
                        const std::vector<int64_t>& lengths) {
    recurrent(tape, GetParam(), input, w, state, lengths, Direction::forward);
  };
  EXPECT_NO_THROW(call(x, good, {}, {5, 2}));
  EXPECT_THROW(call(x.at(0), good, {}, {}), Error);
  EXPECT_THROW(call(x.slice(0, 1, 1), good, {}, {}), Error);
  EXPECT_THROW(call(zeros({5, 2, 4}), good, {}, {}), Error);
  EXPECT_THROW(call(x, good, {}, {5}), Error);
  EXPECT_THROW(call(x, good, {}, {5, 6}), Error);
  EXPECT_THROW(call(x, good, {}, {5, -1}), Error);
  EXPECT_THROW(call(x, good, {zeros({3, 4}), {}}, {}), Error);
  EXPECT_THROW(call(x, good, {zeros({2, 4, 2}).slice(2, 0, 1).reshape({2, 4}), {}}, {}), Error);
  CellWeights<float> w = good;
  w.recurrent = zeros({4, width + 1});
  EXPECT_THROW(call(x, w, {}, {}), Error);
  w = good;
  w.bias = zeros({width - 1});
  EXPECT_THROW(call(x, w, {}, {}), Error);
  w.bias = {};
  EXPECT_THROW(call(x, w, {}, {}), Error);
  if (GetParam() != Cell::gru) return;
  w = good;
  w.recurrent_bias = {};
  EXPECT_THROW(call(x, w, {}, {}), Error);
  w.recurrent_bias = zeros({width + 1});
  EXPECT_THROW(call(x, w, {}, {}), Error);
}

INSTANTIATE_TEST_SUITE_P(All, RecurrentCells, testing::Values(Cell::rnn, Cell::gru, Cell::lstm),
                         [](const testing::TestParamInfo<Cell>& p) {
                           return std::string(p.param == Cell::rnn ? "rnn" : p.param == Cell::gru ? "gru" : "lstm");
                         });

}  // namespace
}  // namespace rapt::test
