#include <cmath>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/tensors.h"
#include "tensor/ops.h"

namespace rapt::test {
namespace {

using std::int64_t;
using support::Held;
using support::Input;
using support::random_input;

constexpr int kIgnored = 0;

struct Expected {
  double loss = 0;
  int64_t tokens = 0;
  int64_t correct = 0;
};

// By the definition, in double: −Σ q log p with q = 1 − ε on the target and ε shared by all symbols.
Expected plain(const std::vector<double>& logits, int64_t width, const std::vector<int>& targets, double smoothing) {
  Expected e;
  for (std::size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] == kIgnored) continue;
    const double* x = logits.data() + static_cast<int64_t>(r) * width;
    double largest = x[0];
    int64_t best = 0;
    for (int64_t n = 1; n < width; ++n)
      if (x[n] > largest) {
        largest = x[n];
        best = n;
      }
    double sum = 0;
    for (int64_t n = 0; n < width; ++n) sum += std::exp(x[n] - largest);
    for (int64_t n = 0; n < width; ++n) {
      const double q = (n == targets[r] ? 1 - smoothing : 0) + smoothing / static_cast<double>(width);
      e.loss -= q * (x[n] - largest - std::log(sum));
    }
    ++e.tokens;
    e.correct += best == targets[r] ? 1 : 0;
  }
  return e;
}

template <class T>
void check_loss(int64_t width, double smoothing, double spread, double tolerance) {
  Random random(1, width);
  const int64_t rows = 6;
  Input logits = random_input("logits", {3, 2, width}, random, spread);
  std::vector<int> targets;
  for (int64_t r = 0; r < rows; ++r)
    targets.push_back(static_cast<int>(random.below(static_cast<std::uint64_t>(width))));
  targets[2] = kIgnored;
  const double weight = 0.25;
  const Expected expected = plain(logits.values, width, targets, smoothing);
  const support::IsaScope scope;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    SCOPED_TRACE(name_of(isa));
    Tape<T> tape;
    Held<T> held(logits, 0.5);
    const LossSums sums =
        cross_entropy(tape, held.tensor(), targets, kIgnored, static_cast<T>(smoothing), static_cast<T>(weight));
    tape.backward();
    EXPECT_NEAR(sums.loss, expected.loss, tolerance * (1 + std::abs(expected.loss)));
    EXPECT_EQ(sums.tokens, expected.tokens);
    EXPECT_EQ(sums.correct, expected.correct);
    for (std::size_t n = 0; n < logits.values.size(); ++n) {
      constexpr double kStep = 1e-5;
      const double middle = logits.values[n];
      logits.values[n] = middle + kStep;
      const double above = plain(logits.values, width, targets, smoothing).loss;
      logits.values[n] = middle - kStep;
      const double below = plain(logits.values, width, targets, smoothing).loss;
      logits.values[n] = middle;
      ASSERT_NEAR(static_cast<double>(held.gradients[n]) - 0.5, weight * (above - below) / (2 * kStep),
                  std::max(tolerance, 2e-9))
          << n;
      if (static_cast<int64_t>(n) / width == 2) {
        ASSERT_EQ(held.gradients[n], T(0.5));
      }
    }
    // Without recording: the same sums.
    Tape<T> silent(false);
    EXPECT_EQ(cross_entropy(silent, held.tensor(false), targets, kIgnored, static_cast<T>(smoothing), T(1)).loss,
              sums.loss);
  }
}

TEST(CrossEntropy, LossAndGradient) {
  for (const int64_t width : {2, 3, 8, 17, 65, 257})
    for (const double smoothing : {0.0, 0.1, 0.9}) {
      check_loss<double>(width, smoothing, 2, 1e-12);
      check_loss<float>(width, smoothing, 2, 2e-6);
    }
}

template <class T>
void check_huge() {
  const support::IsaScope scope;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (const double smoothing : {0.0, 0.1}) {
      const Input logits{
          "logits", {4, 5}, {1e4,  -1e4, 0,    5,    1e4 - 1,  //
                             -1e4, -1e4, -1e4, -1e4, -1e4,    1e4, 1e4, 1e4, 1e4, 1e4, -1e4, 1e4, 3, -3, 0}};
      const std::vector<int> targets{1, 4, 2, 1};
      const Expected expected = plain(logits.values, 5, targets, smoothing);
      Tape<T> tape;
      Held<T> held(logits);
      const LossSums sums = cross_entropy(tape, held.tensor(), targets, kIgnored, static_cast<T>(smoothing), T(1));
      EXPECT_NEAR(sums.loss, expected.loss, 1e-6 * expected.loss);
      for (std::size_t r = 0; r < 4; ++r) {
        double total = 0;
        for (std::size_t n = 0; n < 5; ++n) {
          const T g = held.gradients[r * 5 + n];
          ASSERT_TRUE(std::isfinite(g));
          total += static_cast<double>(g);
        }
        EXPECT_NEAR(total, 0, 1e-6);
      }
      EXPECT_NEAR(static_cast<double>(held.gradients[6]), 0.2 - smoothing / 5, 1e-6);
      EXPECT_NEAR(static_cast<double>(held.gradients[16]), -(1 - smoothing) + 1 - smoothing / 5, 1e-6);
    }
  }
}
TEST(CrossEntropy, HugeLogitsStayFinite) {
  check_huge<float>();
  check_huge<double>();
}

template <class T>
void check_log_softmax() {
  const support::IsaScope scope;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    Random random(5);
    for (const int64_t width : {1, 5, 16, 33, 100}) {
      const std::vector<double> x = support::random_numbers(random, width, 5);
      std::vector<T> y(x.begin(), x.end());
      const int64_t best = tensor_kernels<T>().log_softmax(y.data(), width);
      double sum = 0;
      double largest = -1e300;
      for (const double v : x) {
        sum += std::exp(v);
        largest = std::max(largest, v);
      }
      EXPECT_EQ(x[static_cast<std::size_t>(best)], largest);
      for (std::size_t n = 0; n < x.size(); ++n)
        EXPECT_NEAR(static_cast<double>(y[n]), x[n] - std::log(sum), sizeof(T) == 4 ? 4e-6 : 1e-13);
    }
  }
}
TEST(LogSoftmax, EqualsTheFormula) {
  check_log_softmax<float>();
  check_log_softmax<double>();
}

TEST(CrossEntropy, FirstOfEqualLogitsCounts) {
  Tape<float> tape;
  Held<float> logits({"logits", {1, 40}, std::vector<double>(40, 2.0)});
  const std::vector<int> first{3};
  EXPECT_EQ(cross_entropy(tape, logits.tensor(), first, 5, 0.0F, 1.0F).correct, 0);
  const std::vector<int> zero{0};
  EXPECT_EQ(cross_entropy(tape, logits.tensor(), zero, 5, 0.0F, 1.0F).correct, 1);
}

TEST(CrossEntropy, NaNIsNotHidden) {
  Tape<float> tape;
  Held<float> logits({"logits", {1, 3}, {0, std::nan(""), 1}});
  EXPECT_TRUE(std::isnan(cross_entropy(tape, logits.tensor(), std::vector<int>{2}, 0, 0.0F, 1.0F).loss));
}

TEST(CrossEntropy, BadTargetsAreErrors) {
  Tape<float> tape;
  const Tensor<float> logits = tape.make({2, 3});
  std::fill_n(logits.data, 6, 0.0F);
  EXPECT_THROW(cross_entropy(tape, logits, std::vector<int>{1}, 0, 0.0F, 1.0F), Error);
  EXPECT_THROW(cross_entropy(tape, logits, std::vector<int>{1, 3}, 0, 0.0F, 1.0F), Error);
  EXPECT_THROW(cross_entropy(tape, logits, std::vector<int>{1, -1}, 0, 0.0F, 1.0F), Error);
}

// Dropout.

template <class T>
std::vector<T> dropped(double rate, std::uint64_t key, int64_t count) {
  Held<T> ones({"x", {count}, std::vector<double>(static_cast<std::size_t>(count), 1.0)});
  Tape<T> tape(false);
  const Tensor<T> y = dropout(tape, ones.tensor(false), static_cast<T>(rate), key);
  return {y.data, y.data + count};
}

TEST(Dropout, HonoursItsRateAndKeepsTheMean) {
  constexpr int64_t kCount = 100000;
  for (const double rate : {0.01, 0.1, 0.5, 0.9})
    for (const std::uint64_t key : {std::uint64_t{1}, std::uint64_t{1} << 40, std::uint64_t{0xfedcba9876543210}}) {
      const std::vector<float> y = dropped<float>(rate, key, kCount);
      double zeros = 0;
      double sum = 0;
      double pairs = 0;  // of neighbours that are both dropped
      for (std::size_t n = 0; n < y.size(); ++n) {
        ASSERT_TRUE(y[n] == 0 || std::abs(static_cast<double>(y[n]) - 1 / (1 - rate)) < 1e-5) << y[n];
        zeros += y[n] == 0 ? 1 : 0;
        sum += static_cast<double>(y[n]);
        pairs += n > 0 && y[n] == 0 && y[n - 1] == 0 ? 1 : 0;
      }
      // Five standard deviations.
      const double sigma = std::sqrt(rate * (1 - rate) * kCount);
      EXPECT_NEAR(zeros, rate * kCount, 5 * sigma) << rate;
      EXPECT_NEAR(sum / kCount, 1, 5 * sigma / kCount / (1 - rate)) << rate;
      EXPECT_NEAR(pairs, rate * rate * kCount, 8 * std::sqrt(rate * rate * kCount) + 5) << rate;
    }
}

TEST(Dropout, KeysGiveMasksOfTheirOwn) {
  const std::vector<float> one = dropped<float>(0.5, 7, 4096);
  EXPECT_EQ(one, dropped<float>(0.5, 7, 4096));
  for (const std::uint64_t key :
       {std::uint64_t{8}, std::uint64_t{7} << 32, std::uint64_t{7} | std::uint64_t{1} << 63}) {
    const std::vector<float> other = dropped<float>(0.5, key, 4096);
    int equal = 0;
    for (std::size_t n = 0; n < one.size(); ++n) equal += one[n] == other[n] ? 1 : 0;
    EXPECT_NEAR(equal, 2048, 5 * 32) << key;
  }
}

TEST(Dropout, EveryTargetDropsTheSamePlaces) {
  const support::IsaScope scope;
  std::vector<double> first;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    const std::vector<double> y = dropped<double>(0.3, 99, 1003);
    if (first.empty()) first = y;
    EXPECT_EQ(y, first) << name_of(isa);
  }
}

TEST(Dropout, BackwardUsesTheSameMask) {
  Random random(3);
  const std::vector<Input> inputs{random_input("x", {3, 5, 7}, random)};
  support::check_operation(inputs,
                           [](auto& tape, const auto& x) {
                             using T = std::decay_t<decltype(*x[0].data)>;
                             return std::vector{dropout(tape, x[0], T(0.4), 1234567)};
                           },
                           {});
}

TEST(Dropout, RateZeroChangesNothing) {
  Tape<float> tape;
  const Tensor<float> x = tape.make({3});
  EXPECT_EQ(dropout(tape, x, 0.0F, 1).data, x.data);
}

}  // namespace
}  // namespace rapt::test
