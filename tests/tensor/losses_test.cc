#include "tensor/losses.h"

#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/tensors.h"

namespace rapt::test {
namespace {

using std::int64_t;
using support::Held;
using support::Input;
using support::random_input;

constexpr double kWeight = 0.25;

struct Expected {
  double loss = 0;
  int64_t counted = 0;
  int64_t correct = 0;
};
using Plain = std::function<Expected(const std::vector<double>&)>;

// Sums by the definition, gradients against central differences of it.
template <class T, class Loss>
void check_one(Input x, const Plain& plain, const Loss& loss, double tolerance) {
  const Expected expected = plain(x.values);
  Tape<T> tape;
  Held<T> held(x, 0.5);
  const LossSums sums = loss(tape, held.tensor());
  tape.backward();
  EXPECT_NEAR(sums.loss, expected.loss, tolerance * (1 + std::abs(expected.loss)));
  EXPECT_EQ(sums.tokens, expected.counted);
  EXPECT_EQ(sums.correct, expected.correct);
  for (std::size_t n = 0; n < x.values.size(); ++n) {
    constexpr double kStep = 1e-6;
    const double middle = x.values[n];
    x.values[n] = middle + kStep;
    const double above = plain(x.values).loss;
    x.values[n] = middle - kStep;
    const double below = plain(x.values).loss;
    x.values[n] = middle;
    EXPECT_NEAR(static_cast<double>(held.gradients[n]), 0.5 + kWeight * (above - below) / (2 * kStep),
                std::max(tolerance, 1e-8) * 10)
        << n;
  }
  // Without recording the sums are the same and no gradient is needed.
  Tape<T> silent(false);
  EXPECT_EQ(loss(silent, held.tensor(false)).loss, sums.loss);
}

template <class Loss>
void check(const Input& x, const Plain& plain, const Loss& loss) {
  check_one<double>(x, plain, loss, 1e-9);
  check_one<float>(x, plain, loss, 2e-5);
}

TEST(PixelLosses, AbsoluteError) {
  Random random(1);
  const Input x = random_input("x", {4, 3, 1}, random);
  std::vector<float> targets(12);
  for (float& t : targets) t = static_cast<float>(random.normal());
  targets[3] = targets[8] = std::numeric_limits<float>::quiet_NaN();
  check(
      x,
      [&](const std::vector<double>& v) {
        Expected e;
        for (std::size_t n = 0; n < v.size(); ++n) {
          if (n == 3 || n == 8) continue;
          e.loss += std::abs(v[n] - targets[n]);
          ++e.counted;
          e.correct += std::abs(v[n] - targets[n]) <= 0.5 ? 1 : 0;
        }
        return e;
      },
      [&]<class T>(Tape<T>& tape, const Tensor<T>& t) { return absolute_error(tape, t, targets, 0.5, T(kWeight)); });
}

TEST(PixelLosses, CosineError) {
  Random random(2);
  const Input x = random_input("x", {3, 2, 3}, random);
  std::vector<float> targets(18);
  for (std::size_t r = 0; r < 6; ++r) {
    double v[3];
    for (double& n : v) n = random.normal();
    const double length = std::hypot(v[0], v[1], v[2]);
    for (std::size_t n = 0; n < 3; ++n) targets[3 * r + n] = r == 4 ? 0.0F : static_cast<float>(v[n] / length);
  }
  check(
      x,
      [&](const std::vector<double>& v) {
        Expected e;
        for (std::size_t r = 0; r < 6; ++r) {
          if (r == 4) continue;
          double product = 0;
          double square = 1e-6;
          for (std::size_t n = 0; n < 3; ++n) {
            product += v[3 * r + n] * targets[3 * r + n];
            square += v[3 * r + n] * v[3 * r + n];
          }
          e.loss += 1 - product / std::sqrt(square);
          ++e.counted;
          e.correct += product / std::sqrt(square) >= 0.2 ? 1 : 0;
        }
        return e;
      },
      [&]<class T>(Tape<T>& tape, const Tensor<T>& t) { return cosine_error(tape, t, targets, 0.2, T(kWeight)); });
}

TEST(PixelLosses, BinaryCrossEntropy) {
  Random random(3);
  const Input x = random_input("x", {5, 2, 1}, random, 3);
  std::vector<std::uint8_t> targets(10);
  for (std::uint8_t& t : targets) t = static_cast<std::uint8_t>(random.below(2));
  const BinaryWeights weights{0.6, 3};
  check(
      x,
      [&](const std::vector<double>& v) {
        Expected e;
        for (std::size_t n = 0; n < v.size(); ++n) {
          const double p = 1 / (1 + std::exp(-v[n]));
          e.loss -= targets[n] ? 3 * std::log(p) : 0.6 * std::log(1 - p);
          ++e.counted;
          e.correct += (p > 0.5) == (targets[n] != 0) ? 1 : 0;
        }
        return e;
      },
      [&]<class T>(Tape<T>& tape, const Tensor<T>& t) {
        return binary_cross_entropy(tape, t, targets, weights, T(kWeight));
      });
}

TEST(PixelLosses, ExtremeNumbersStayFinite) {
  Tape<float> tape;
  Held<float> logits({"x", {4, 1}, {1e30, -1e30, 100, -100}});
  const std::vector<std::uint8_t> targets{1, 0, 0, 1};
  const LossSums sums = binary_cross_entropy(tape, logits.tensor(), targets, {}, 1.0F);
  EXPECT_NEAR(sums.loss, 200, 1e-3);
  for (const float g : logits.gradients) EXPECT_TRUE(std::isfinite(g));
  Held<float> zero({"x", {1, 3}, {0, 0, 0}});
  const std::vector<float> normal{0, 0, 1};
  EXPECT_NEAR(cosine_error(tape, zero.tensor(), normal, 0.9, 1.0F).loss, 1, 1e-6);
  for (const float g : zero.gradients) EXPECT_TRUE(std::isfinite(g));
}

TEST(PixelLosses, BadShapesAreErrors) {
  Tape<float> tape;
  const Tensor<float> x = tape.make({4, 2, 2});
  const std::vector<float> targets(15);
  const std::vector<std::uint8_t> bits(16);
  EXPECT_THROW(absolute_error(tape, x, targets, 0, 1.0F), Error);
  EXPECT_THROW(cosine_error(tape, x, std::vector<float>(16), 0, 1.0F), Error);
  EXPECT_THROW(binary_cross_entropy(tape, x, bits, {}, 1.0F), Error);
}

}  // namespace
}  // namespace rapt::test
