#include "layers/recurrent.h"

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/layers.h"

namespace rapt::layers::test {
namespace {

using support::random_input;

constexpr std::array kCells{Cell::rnn, Cell::gru, Cell::lstm};

TEST(RecurrentStack, ParameterCounts) {
  const auto count = [](const RecurrentShape& shape) {
    Parameters parameters;
    const Recurrent layer(parameters, "r", shape);
    return parameters.count();
  };
  // g gates: g·hidden·(in + hidden + 1), and the GRU's second bias.
  EXPECT_EQ(count({Cell::rnn, 5, 8, 1, false, 0}), 8 * (5 + 8 + 1));
  EXPECT_EQ(count({Cell::lstm, 5, 8, 1, false, 0}), 4 * 8 * (5 + 8 + 1));
  EXPECT_EQ(count({Cell::gru, 5, 8, 1, false, 0}), 3 * 8 * (5 + 8 + 2));
  EXPECT_EQ(count({Cell::lstm, 5, 8, 2, false, 0}), 4 * 8 * (5 + 8 + 1) + 4 * 8 * (8 + 8 + 1));
  // Two directions of half the units; the second layer reads both.
  EXPECT_EQ(count({Cell::lstm, 5, 8, 2, true, 0}), 2 * 4 * 4 * (5 + 4 + 1) + 2 * 4 * 4 * (8 + 4 + 1));
}

TEST(RecurrentStack, GradientsOfStacks) {
  const std::vector<std::int64_t> lengths{3, 1};
  for (const Cell cell : kCells)
    for (const bool both : {false, true})
      for (const int layers : {1, 2}) {
        Parameters parameters;
        const Recurrent layer(parameters, "r", {cell, 3, 4, layers, both, 0});
        Random random(1);
        support::check_layer(
            parameters, {random_input("x", {3, 2, 3}, random)}, random, [&](auto& graph, const auto& x) {
              const auto out = layer(graph, x[0], lengths);
              std::vector outputs{out.states};
              for (const auto& state : out.last) {
                outputs.push_back(state.h);
                if (state.c) outputs.push_back(state.c);
              }
              EXPECT_EQ(outputs.size(), (cell == Cell::lstm ? 2U : 1U) * static_cast<unsigned>(layers) + 1);
              return outputs;
            });
      }
}

// The two halves are two runs, one of them over the reversed sequence.
TEST(RecurrentStack, BidirectionalIsTwoRuns) {
  for (const Cell cell : kCells) {
    Parameters parameters;
    const Recurrent both(parameters, "both", {cell, 3, 8, 1, true, 0});
    Parameters single;
    const Recurrent ahead(single, "one", {cell, 3, 4, 1, false, 0});
    Random random(2);
    const auto numbers = support::random_numbers(random, parameters.size());
    const std::vector<std::int64_t> lengths{5, 2};
    const support::Input input = random_input("x", {5, 2, 3}, random);
    support::Held<double> x(input);
    Tape<double> tape(false);
    Graph<double> graph(tape, parameters, numbers.data(), nullptr);
    const auto out = both(graph, x.tensor(false), lengths);
    ASSERT_EQ(to_string(out.states), "[5, 2, 8]");
    ASSERT_EQ(to_string(out.last[0].h), "[2, 8]");
    // Each direction's parameters lie one after the other, in the same order as in a stack of one direction.
    const std::size_t per_direction = single.list().size();
    for (int d = 0; d < 2; ++d) {
      std::vector<double> values(static_cast<std::size_t>(single.size()));
      for (std::size_t p = 0; p < per_direction; ++p)
        std::copy_n(numbers.begin() + parameters.list()[per_direction * static_cast<std::size_t>(d) + p].offset,
                    single.list()[p].count, values.begin() + single.list()[p].offset);
      for (std::int64_t b = 0; b < 2; ++b) {
        const std::int64_t length = lengths[static_cast<std::size_t>(b)];
        const Tensor<double> alone = tape.make({length, 1, 3});
        for (std::int64_t t = 0; t < length; ++t)
          std::copy_n(x.values.begin() + ((d == 0 ? t : length - 1 - t) * 2 + b) * 3, 3, alone.data + t * 3);
        Graph<double> one(tape, single, values.data(), nullptr);
        const auto result = ahead(one, alone, {});
        for (std::int64_t t = 0; t < length; ++t)
          for (std::int64_t n = 0; n < 4; ++n)
            ASSERT_NEAR(out.states.data[(t * 2 + b) * 8 + d * 4 + n],
                        result.states.data[(d == 0 ? t : length - 1 - t) * 4 + n], 1e-14);
        for (std::int64_t n = 0; n < 4; ++n)
          ASSERT_NEAR(out.last[0].h.data[b * 8 + d * 4 + n], result.last[0].h.data[n], 1e-14);
      }
    }
  }
}

// Step by step from the last states: the same bits as all at once.
TEST(RecurrentStack, GoesOnFromItsLastStates) {
  for (const Cell cell : kCells) {
    Parameters parameters;
    const Recurrent layer(parameters, "r", {cell, 3, 17, 2, false, 0});
    Random random(3);
    std::vector<float> values(static_cast<std::size_t>(parameters.size()));
    parameters.initialize(values.data(), 1);
    support::Held<float> x(random_input("x", {6, 2, 3}, random));
    Tape<float> tape(false);
    Graph<float> graph(tape, parameters, values.data(), nullptr);
    const auto all = layer(graph, x.tensor(false), {});
    std::vector<CellState<float>> state;
    for (std::int64_t t = 0; t < 6; ++t) {
      auto step = layer(graph, x.tensor(false).slice(0, t, t + 1), {}, std::span<const CellState<float>>(state));
      EXPECT_EQ(support::numbers_of(step.states), support::numbers_of(all.states.slice(0, t, t + 1)));
      state = step.last;
    }
  }
}

TEST(RecurrentStack, DropoutBetweenLayersInTrainingOnly) {
  Parameters parameters;
  const Recurrent layer(parameters, "r", {Cell::gru, 3, 8, 2, false, 0.5});
  Random random(4);
  std::vector<float> values(static_cast<std::size_t>(parameters.size()));
  parameters.initialize(values.data(), 1);
  support::Held<float> x(random_input("x", {4, 2, 3}, random));
  Tape<float> tape(false);
  const auto run = [&](bool training, std::uint64_t key) {
    Graph<float> graph(tape, parameters, values.data(), nullptr);
    if (training) graph.train(key);
    return support::numbers_of(layer(graph, x.tensor(false), {}).states);
  };
  EXPECT_EQ(run(false, 1), run(false, 2));
  EXPECT_EQ(run(true, 1), run(true, 1));
  EXPECT_NE(run(true, 1), run(true, 2));
  EXPECT_NE(run(true, 1), run(false, 1));
}

TEST(RecurrentStack, BadShapesAreErrors) {
  Parameters parameters;
  EXPECT_THROW(Recurrent(parameters, "odd", {Cell::rnn, 3, 5, 1, true, 0}), Error);
  const Recurrent layer(parameters, "r", {Cell::rnn, 3, 4, 2, false, 0});
  std::vector<float> values(static_cast<std::size_t>(parameters.size()));
  Tape<float> tape(false);
  Graph<float> graph(tape, parameters, values.data(), nullptr);
  const Tensor<float> x = tape.make({2, 1, 3});
  const std::vector<CellState<float>> one(1);
  EXPECT_THROW(layer(graph, x, {}, std::span<const CellState<float>>(one)), Error);
  EXPECT_THROW(layer(graph, tape.make({2, 1, 4}), {}), Error);
}

}  // namespace
}  // namespace rapt::layers::test
