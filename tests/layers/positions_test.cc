#include "layers/positions.h"

#include <cmath>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/layers.h"

namespace rapt::layers::test {
namespace {

using std::int64_t;
using support::random_input;

// The encoding alone: added to zeros, or concatenated with them.
std::vector<double> encoding(const PositionsShape& shape, int64_t first, int64_t steps) {
  Parameters parameters;
  const PositionalEncoding layer(parameters, "positions", shape);
  std::vector<double> values(static_cast<std::size_t>(parameters.size()));
  parameters.initialize(values.data(), 1);
  Tape<double> tape(false);
  Graph<double> graph(tape, parameters, values.data(), nullptr);
  const Tensor<double> x = tape.make({steps, 2, shape.width});
  std::fill_n(x.data, x.count(), 0.0);
  const Tensor<double> y = layer(graph, x, first);
  EXPECT_EQ(y.size(2), layer.width());
  std::vector<double> numbers = support::numbers_of(y);
  // Both sequences of the batch get the same.
  const int64_t wide = layer.width();
  std::vector<double> one;
  for (int64_t s = 0; s < steps; ++s)
    for (int64_t n = 0; n < wide; ++n) {
      EXPECT_EQ(numbers[static_cast<std::size_t>(s * 2 * wide + n)],
                numbers[static_cast<std::size_t>((s * 2 + 1) * wide + n)]);
      one.push_back(numbers[static_cast<std::size_t>(s * 2 * wide + n)]);
    }
  return one;
}

// PE(t) = [sin ω₁t, cos ω₁t, …], ω_k = 10000^(−2k/d) with k counted from 0.
TEST(PositionEncodings, SinusoidalValues) {
  for (const int64_t width : {1, 4, 7, 64}) {
    const auto got = encoding({Positions::sinusoidal, false, width, 0, 0}, 3, 5);
    for (int64_t s = 0; s < 5; ++s)
      for (int64_t n = 0; n < width; ++n) {
        const double omega =
            1 / std::pow(10000.0, 2.0 * std::floor(static_cast<double>(n) / 2) / static_cast<double>(width));
        const double angle = omega * static_cast<double>(3 + s);
        ASSERT_NEAR(got[static_cast<std::size_t>(s * width + n)], n % 2 == 0 ? std::sin(angle) : std::cos(angle),
                    1e-14);
      }
  }
  // By hand: t = 1, d = 4.
  EXPECT_NEAR(sinusoid(1, 0, 4), 0.8414709848078965, 1e-15);
  EXPECT_NEAR(sinusoid(1, 1, 4), 0.5403023058681398, 1e-15);
  EXPECT_NEAR(sinusoid(1, 2, 4), 0.009999833334166664, 1e-16);
  EXPECT_NEAR(sinusoid(1, 3, 4), 0.9999500004166653, 1e-15);
}

TEST(PositionEncodings, OneHot) {
  const auto added = encoding({Positions::one_hot, false, 6, 0, 5}, 1, 3);
  const auto beside = encoding({Positions::one_hot, true, 2, 0, 5}, 1, 3);
  for (int64_t s = 0; s < 3; ++s) {
    for (int64_t n = 0; n < 6; ++n) EXPECT_EQ(added[static_cast<std::size_t>(s * 6 + n)], n == s + 1 ? 1 : 0);
    for (int64_t n = 0; n < 7; ++n) EXPECT_EQ(beside[static_cast<std::size_t>(s * 7 + n)], n == 2 + s + 1 ? 1 : 0);
  }
}

TEST(PositionEncodings, NoneAndRotaryAddNothing) {
  for (const Positions kind : {Positions::none, Positions::rotary})
    for (const bool concatenate : {false, true})
      EXPECT_EQ(encoding({kind, concatenate, 3, 0, 0}, 0, 2), std::vector<double>(6, 0.0));
}

TEST(PositionEncodings, ConcatenatedStandBesideTheTokens) {
  Parameters parameters;
  const PositionalEncoding layer(parameters, "positions", {Positions::sinusoidal, true, 3, 4, 0});
  EXPECT_EQ(layer.width(), 7);
  Tape<double> tape(false);
  Graph<double> graph(tape, parameters, nullptr, nullptr);
  Random random(1);
  support::Held<double> x(random_input("x", {2, 1, 3}, random));
  const auto y = support::numbers_of(layer(graph, x.tensor(false), 6));
  for (int64_t s = 0; s < 2; ++s) {
    for (int64_t n = 0; n < 3; ++n)
      EXPECT_EQ(y[static_cast<std::size_t>(s * 7 + n)], x.values[static_cast<std::size_t>(s * 3 + n)]);
    for (int64_t n = 0; n < 4; ++n) EXPECT_EQ(y[static_cast<std::size_t>(s * 7 + 3 + n)], sinusoid(6 + s, n, 4));
  }
}

TEST(PositionEncodings, LearnedTableAndGradients) {
  for (const bool concatenate : {false, true}) {
    Parameters parameters;
    const PositionalEncoding layer(parameters, "positions", {Positions::learned, concatenate, 3, 0, 6});
    EXPECT_EQ(parameters.count(), 18);
    Random random(2);
    support::check_layer(parameters, {random_input("x", {2, 2, 3}, random)}, random,
                         [&](auto& graph, const auto& x) { return std::vector{layer(graph, x[0], 3)}; });
    const auto at_0 = encoding({Positions::learned, concatenate, 3, 0, 6}, 0, 6);
    const auto at_2 = encoding({Positions::learned, concatenate, 3, 0, 6}, 2, 4);
    const std::ptrdiff_t wide = concatenate ? 6 : 3;
    EXPECT_EQ(std::vector<double>(at_0.begin() + 2 * wide, at_0.end()), at_2);
  }
}

// ⟨R_i q, R_j k⟩ depends on j − i only, and on nothing else of i and j.
TEST(PositionEncodings, RotaryScoresDependOnTheOffsetOnly) {
  Random random(3);
  const int64_t dim = 8;
  support::Held<double> q(random_input("q", {1, 1, dim}, random));
  support::Held<double> k(random_input("k", {1, 1, dim}, random));
  Tape<double> tape(false);
  const auto score = [&](int64_t i, int64_t j) {
    const auto a = support::numbers_of(rotate(tape, q.tensor(false), 1, i));
    const auto b = support::numbers_of(rotate(tape, k.tensor(false), 1, j));
    double sum = 0;
    for (std::size_t n = 0; n < a.size(); ++n) sum += a[n] * b[n];
    return sum;
  };
  for (const int64_t offset : {-7, -1, 0, 1, 13}) {
    const double first = score(10, 10 + offset);
    for (const int64_t i : {7, 8, 63, 64, 500}) EXPECT_NEAR(score(i, i + offset), first, 1e-12);
  }
  EXPECT_GT(std::abs(score(10, 12) - score(10, 11)), 1e-3);
}

TEST(PositionEncodings, TooLongIsAnError) {
  EXPECT_NO_THROW(encoding({Positions::sinusoidal, false, 4, 0, 3}, 2, 9));
  EXPECT_NO_THROW(encoding({Positions::learned, false, 4, 0, 3}, 1, 2));
  EXPECT_THROW(encoding({Positions::learned, false, 4, 0, 3}, 1, 3), Error);
  EXPECT_THROW(encoding({Positions::one_hot, true, 4, 0, 3}, 1, 3), Error);
  EXPECT_THROW(encoding({Positions::one_hot, false, 4, 0, 5}, 0, 1), Error);  // five places in four numbers
  EXPECT_THROW(encoding({Positions::one_hot, true, 4, 4, 5}, 0, 1), Error);   // the same beside
  EXPECT_THROW(encoding({Positions::learned, false, 4, 0, 0}, 0, 1), Error);
}

}  // namespace
}  // namespace rapt::layers::test
