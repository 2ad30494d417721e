// The shortcuts for decoding and small vocabularies give the results of the general code.

#include <algorithm>
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/tensors.h"
#include "tensor/ops.h"
#include "tensor/pack_cache.h"
#include "tensor/recurrent.h"

namespace rapt::test {
namespace {

using std::int64_t;
using support::Held;
using support::random_input;

constexpr int64_t kSymbols = 6, kWidth = 5, kHidden = 19, kBatch = 3;
const std::vector<int> kIds{1, 2, 5, 0, 2, 2, 3, 1, 0, 5, 5, 4};
const std::vector<int64_t> kLengths{4, 2, 3};

template <class T>
struct Weights {
  explicit Weights(Cell cell) : Weights(gates_of(cell) * kHidden, Random(3)) {}
  Weights(int64_t width, Random random)
      : table(random_input("table", {kSymbols, kWidth}, random)),
        input(random_input("input", {kWidth, width}, random)),
        recurrent(random_input("recurrent", {kHidden, width}, random, 0.3)),
        bias(random_input("bias", {width}, random)),
        recurrent_bias(random_input("recurrent_bias", {width}, random)) {}

  CellWeights<T> cell(Cell kind) {
    return {input.tensor(), recurrent.tensor(), bias.tensor(),
            kind == Cell::gru ? recurrent_bias.tensor() : Tensor<T>{}};
  }

  Held<T> table, input, recurrent, bias, recurrent_bias;
};

// The states and, on a tape that records, the gradients of a sum that weighs every number differently.
template <class T>
std::vector<T> states_of(Tape<T>& tape, Cell cell, Direction direction, Weights<T>& w, bool by_symbol) {
  const CellWeights<T> weights = w.cell(cell);
  const Tensor<T> states =
      by_symbol
          ? recurrent_of_symbols(tape, cell, linear(tape, w.table.tensor(), weights.input, weights.bias), kIds, kBatch,
                                 weights, {}, kLengths, direction)
                .states
          : recurrent(tape, cell, embed(tape, w.table.tensor(), kIds, kBatch), weights, {}, kLengths, direction).states;
  if (tape.recording()) {
    for (int64_t n = 0; n < states.count(); ++n) states.grad[n] = static_cast<T>(std::sin(static_cast<double>(n)));
    tape.backward();
  }
  return {states.data, states.data + states.count()};
}

TEST(RecurrentSymbols, SameBitsAsEmbeddingFirst) {
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm})
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      Weights<float> w(cell);
      Tape<float> tape(false);
      EXPECT_EQ(states_of(tape, cell, direction, w, true), states_of(tape, cell, direction, w, false));
    }
}

TEST(RecurrentSymbols, SameGradientsAsEmbeddingFirst) {
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm})
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      Weights<double> a(cell), b(cell);
      Tape<double> first, second;
      states_of(first, cell, direction, a, true);
      states_of(second, cell, direction, b, false);
      for (const auto& [x, y] : {std::pair{&a.table, &b.table},
                                 {&a.input, &b.input},
                                 {&a.recurrent, &b.recurrent},
                                 {&a.bias, &b.bias},
                                 {&a.recurrent_bias, &b.recurrent_bias}}) {
        double size = 0;
        for (std::size_t n = 0; n < x->gradients.size(); ++n) {
          ASSERT_NEAR(x->gradients[n], y->gradients[n], 1e-12);
          size += std::abs(x->gradients[n]);
        }
        EXPECT_TRUE(size > 0 || (x == &a.recurrent_bias && cell != Cell::gru));
      }
    }
}

TEST(RecurrentSymbols, BadInputIsAnError) {
  Weights<float> w(Cell::lstm);
  Tape<float> tape(false);
  const CellWeights<float> weights = w.cell(Cell::lstm);
  const Tensor<float> table = linear(tape, w.table.tensor(), weights.input, weights.bias);
  const auto call = [&](const Tensor<float>& rows, const std::vector<int>& ids, int64_t batch) {
    recurrent_of_symbols(tape, Cell::lstm, rows, ids, batch, weights, {}, {}, Direction::forward);
  };
  EXPECT_NO_THROW(call(table, {0, 5}, 2));
  EXPECT_THROW(call(table, {0, 6}, 2), Error);
  EXPECT_THROW(call(table, {0, -1}, 2), Error);
  EXPECT_THROW(call(table, {0, 1, 2}, 2), Error);
  EXPECT_THROW(call(table, {}, 2), Error);
  EXPECT_THROW(call(table, {0, 1}, 0), Error);
  EXPECT_THROW(call(w.table.tensor(), {0, 1}, 2), Error);
}

TEST(PackCacheOf, SameBitsWithWeightsPackedOnce) {
  Weights<float> w(Cell::lstm);
  PackCache<float> packs;
  for (const auto* held : {&w.table, &w.input, &w.recurrent}) packs.add(held->values);
  Tape<float> plain(false), packed(false);
  packed.use(&packs);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(states_of(packed, Cell::lstm, Direction::forward, w, false),
              states_of(plain, Cell::lstm, Direction::forward, w, false));
    // A matrix and its transpose are two factors, though they lie at one place.
    const Tensor<float> square = w.recurrent.tensor().slice(1, 0, kHidden);
    const Tensor<float> x = w.recurrent.tensor().slice(0, 0, 2).slice(1, 0, kHidden);
    const auto numbers = [](const Tensor<float>& t) { return std::vector<float>(t.data, t.data + t.count()); };
    EXPECT_EQ(numbers(linear(packed, x, square)), numbers(linear(plain, x, square)));
    EXPECT_EQ(numbers(linear_transposed(packed, x, square)), numbers(linear_transposed(plain, x, square)));
  }
}

TEST(PackCacheOf, WhatMayChangeIsNotKept) {
  Weights<float> w(Cell::lstm);
  PackCache<float> packs;
  packs.add(w.input.values);
  EXPECT_TRUE(packs.get(factor(as_matrix(w.input.tensor()))));
  EXPECT_FALSE(packs.get(factor(as_matrix(w.recurrent.tensor()))));
  // The first rows of a matrix are another factor.
  const Tensor<float> top = w.input.tensor().slice(0, 0, 2);
  Tape<float> plain(false), packed(false);
  packed.use(&packs);
  const Tensor<float> pair = w.table.tensor().slice(1, 0, 2);
  EXPECT_EQ(linear(packed, pair, top).data[0], linear(plain, pair, top).data[0]);
  Tape<float> tape(false);
  tape.use(&packs);
  const Tensor<float> x = tape.make({1, kHidden});
  std::fill_n(x.data, kHidden, 1.0F);
  for (const float value : {1.0F, 2.0F}) {
    std::ranges::fill(w.recurrent.values, value);
    EXPECT_EQ(linear(tape, x, w.recurrent.tensor()).data[0], value * kHidden);
  }
}

TEST(TapeMemory, LayersShareItWhereNothingIsRecorded) {
  Tape<float> tape(false);
  Tensor<float> x = tape.make({1000});
  for (int n = 0; n < 1000; ++n) x.data[n] = static_cast<float>(n);
  const auto layer = [&] {
    const auto mark = tape.mark();
    for (int made = 0; made < 5; ++made) x = scale(tape, x, 2.0F);
    const Tensor<float> large = tape.make({300000});
    std::fill_n(large.data, large.count(), -1.0F);
    x = scale(tape, x, 1.0F / 32);
    x = tape.keep_only(mark, x);
  };
  layer();
  const std::size_t bytes = tape.bytes();
  for (int n = 0; n < 50; ++n) layer();
  EXPECT_LE(tape.bytes(), 3 * bytes);
  for (int n = 0; n < 1000; ++n) ASSERT_EQ(x.data[n], static_cast<float>(n));
  Tape<float> recording;
  const Tensor<float> kept = recording.make({4});
  EXPECT_EQ(recording.keep_only(recording.mark(), kept).data, kept.data);
}

}  // namespace
}  // namespace rapt::test
