#include "training/optimizer.h"

#include <cmath>

#include <gtest/gtest.h>

#include "support/tensors.h"
#include "tensor/random.h"

namespace rapt::training::test {
namespace {

using Numbers = std::vector<float>;

Numbers random_floats(std::int64_t count, std::uint64_t seed, double spread = 1) {
  Random random(seed, 3);
  Numbers x(static_cast<std::size_t>(count));
  for (float& v : x) v = static_cast<float>(spread * random.normal());
  return x;
}

struct Plain {
  TrainOptions o;
  std::vector<double> value, mean, square;

  // By the papers: Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019), SGD with momentum.
  double step(const Numbers& gradient, double rate, int n) {
    double squares = 0;
    for (const float g : gradient) squares += static_cast<double>(g) * static_cast<double>(g);
    const double norm = std::sqrt(squares);
    const double shrink = o.clip > 0 && norm > o.clip ? o.clip / norm : 1;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double g = static_cast<double>(gradient[i]) * shrink;
      if (o.optimizer != Optimizer::adamw) g += o.weight_decay * value[i];
      if (o.optimizer == Optimizer::sgd) {
        mean[i] = o.beta1 * mean[i] + g;
        value[i] -= rate * mean[i];
        continue;
      }
      mean[i] = o.beta1 * mean[i] + (1 - o.beta1) * g;
      square[i] = o.beta2 * square[i] + (1 - o.beta2) * g * g;
      const double m = mean[i] / (1 - std::pow(o.beta1, n));
      const double v = square[i] / (1 - std::pow(o.beta2, n));
      if (o.optimizer == Optimizer::adamw) value[i] -= rate * o.weight_decay * value[i];
      value[i] -= rate * m / (std::sqrt(v) + o.epsilon);
    }
    return norm;
  }
};

TEST(OptimizerSteps, EqualThePlainFormulas) {
  const support::IsaScope scope;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (const Optimizer kind : {Optimizer::adam, Optimizer::adamw, Optimizer::sgd})
      for (const double decay : {0.0, 0.1})
        for (const double clip : {0.0, 0.5, 1e6}) {
          TrainOptions options;
          options.optimizer = kind;
          options.weight_decay = decay;
          options.clip = clip;
          options.epsilon = 1e-6;
          options.beta2 = 0.98;
          const std::int64_t size = 37;
          Numbers values = random_floats(size, 1);
          Update update(options, size);
          Plain plain{options, {values.begin(), values.end()}, std::vector<double>(37), std::vector<double>(37)};
          for (int n = 1; n <= 6; ++n) {
            Numbers gradient = random_floats(size, 10 + static_cast<std::uint64_t>(n), n == 4 ? 1e-3 : 1);
            const double rate = 0.1 / n;
            const double expected = plain.step(gradient, rate, n);
            const double norm = update.apply(values.data(), {gradient.data()}, rate, n, 1);
            EXPECT_NEAR(norm, expected, 1e-6 * expected);
            EXPECT_EQ(gradient, Numbers(37, 0.0F));
            for (std::size_t i = 0; i < values.size(); ++i)
              ASSERT_NEAR(values[i], plain.value[i], 2e-5) << name_of(isa) << ", step " << n << ", number " << i;
          }
          EXPECT_EQ(update.square().empty(), kind == Optimizer::sgd);
          for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(update.mean()[i], plain.mean[i], 1e-5);
        }
  }
}

// The mean starts with the first step's values and never reaches back further than it has run.
TEST(OptimizerSteps, AverageOfTheValues) {
  TrainOptions options;
  options.average = 0.5;
  const std::int64_t size = 37;
  Numbers values = random_floats(size, 1);
  Update update(options, size);
  std::vector<double> mean(37, 1e6);
  for (int n = 1; n <= 30; ++n) {
    Numbers gradient = random_floats(size, 10 + static_cast<std::uint64_t>(n));
    update.apply(values.data(), {gradient.data()}, 0.1, n, 1);
    const double kept = std::min(0.5, (n - 1.0) / (n + 9.0));
    for (std::size_t i = 0; i < 37; ++i) {
      mean[i] = kept * mean[i] + (1 - kept) * values[i];
      ASSERT_NEAR(update.weights(values.data())[i], mean[i], 1e-5) << n;
    }
  }
  EXPECT_EQ(Update(TrainOptions{}, size).weights(values.data()), values.data());
}

// What shrinks is the whole gradient, not its parts.
TEST(OptimizerSteps, ClippingKeepsTheDirection) {
  TrainOptions options;
  options.optimizer = Optimizer::sgd;
  options.beta1 = 0;
  options.clip = 1;
  Update update(options, 3);
  Numbers values{0, 0, 0};
  Numbers a{6, 0, 1};
  Numbers b{-3, 4, -1};
  EXPECT_DOUBLE_EQ(update.apply(values.data(), {a.data(), b.data()}, 1, 1, 1), 5);
  EXPECT_NEAR(values[0], -0.6, 1e-6);
  EXPECT_NEAR(values[1], -0.8, 1e-6);
  EXPECT_EQ(values[2], 0);
}

// Any threads: the same bits. Parts are added in their order, whatever else happens.
TEST(OptimizerThreads, ChangeNoBit) {
  constexpr std::int64_t kSize = 50001;  // several chunks and an edge
  for (const Optimizer kind : {Optimizer::adam, Optimizer::adamw, Optimizer::sgd})
    for (const int parts : {1, 2, 3, 7}) {
      TrainOptions options;
      options.optimizer = kind;
      options.weight_decay = 0.01;
      const auto run = [&](int threads, bool summed) {
        Numbers values = random_floats(kSize, 1);
        Update update(options, kSize);
        double norms = 0;
        for (int n = 1; n <= 2; ++n) {
          std::vector<Numbers> gradients;
          for (int p = 0; p < parts; ++p)
            gradients.push_back(random_floats(kSize, static_cast<std::uint64_t>(100 * n + p)));
          if (summed) {
            for (std::size_t p = 1; p < gradients.size(); ++p)
              for (std::size_t i = 0; i < gradients[0].size(); ++i) gradients[0][i] += gradients[p][i];
            gradients.resize(1);
          }
          std::vector<float*> places;
          for (Numbers& g : gradients) places.push_back(g.data());
          norms += update.apply(values.data(), places, 0.01, n, threads);
          for (const Numbers& g : gradients)
            for (const float x : g) EXPECT_EQ(x, 0.0F);
        }
        return std::tuple{values, update.mean(), update.square(), norms};
      };
      const auto first = run(1, false);
      EXPECT_EQ(run(1, true), first) << parts;
      for (const int threads : {2, 3, 5}) EXPECT_EQ(run(threads, false), first) << threads;
    }
}

TEST(Schedules, Values) {
  TrainOptions options;
  options.rate = 2;
  EXPECT_DOUBLE_EQ(rate_at(options, 1, 100), 2);
  EXPECT_DOUBLE_EQ(rate_at(options, 100, 100), 2);
  options.warmup = 10;
  for (const Schedule schedule : {Schedule::constant, Schedule::inverse_sqrt, Schedule::cosine}) {
    options.schedule = schedule;
    for (int n = 1; n <= 10; ++n) EXPECT_DOUBLE_EQ(rate_at(options, n, 110), 0.2 * n);
  }
  options.schedule = Schedule::constant;
  EXPECT_DOUBLE_EQ(rate_at(options, 60, 110), 2);
  options.schedule = Schedule::inverse_sqrt;
  EXPECT_DOUBLE_EQ(rate_at(options, 40, 110), 1);
  EXPECT_DOUBLE_EQ(rate_at(options, 1000, 110), 0.2);
  options.schedule = Schedule::cosine;
  EXPECT_NEAR(rate_at(options, 60, 110), 1, 1e-12);
  EXPECT_NEAR(rate_at(options, 35, 110), 1 + std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(rate_at(options, 110, 110), 0, 1e-12);
  EXPECT_NEAR(rate_at(options, 200, 110), 0, 1e-12);  // a longer run than was planned
  options.warmup = 0;
  options.schedule = Schedule::inverse_sqrt;
  EXPECT_DOUBLE_EQ(rate_at(options, 1, 110), 2);
  EXPECT_DOUBLE_EQ(rate_at(options, 4, 110), 1);
  options.warmup = 200;  // the whole run rises
  options.schedule = Schedule::cosine;
  EXPECT_DOUBLE_EQ(rate_at(options, 100, 110), 1);
}

}  // namespace
}  // namespace rapt::training::test
