// Pairs that are computed dimension by dimension: at most twice the error that a naive evaluation in f32 makes, both
// against f64, over several draws. And the error function, which no SIMD library has.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rapt/attend.h"
#include "rapt/formula.h"
#include "rapt/threads.h"

namespace {

constexpr std::int64_t kHeads = 1, kRows = 65;
constexpr std::array kNames{"out", "dq", "dk", "dv", "dw"};
using Results = std::array<std::vector<double>, kNames.size()>;

struct Draw {
  std::int64_t dim;
  std::vector<float> q, k, v, grad_out, w, gamma;

  Draw(std::int64_t dims, unsigned seed) : dim(dims), gamma(kHeads) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto* list : {&q, &k, &v, &grad_out}) {
      list->resize(static_cast<std::size_t>(kHeads * kRows * dim));
      for (float& x : *list) x = normal(random);
    }
    w.resize(static_cast<std::size_t>(dim));
    for (float& x : w) x = 0.3F * normal(random);
    for (float& x : gamma) x = std::uniform_real_distribution<float>(0.05F, 0.5F)(random);
  }
};

template <class T>
Results run(const Draw& draw, const rapt::Score& score, rapt::Path path) {
  const auto copy = [](const std::vector<float>& x) { return std::vector<T>(x.begin(), x.end()); };
  const std::vector<T> q = copy(draw.q), k = copy(draw.k), v = copy(draw.v), grad_out = copy(draw.grad_out),
                       w = copy(draw.w), gamma = copy(draw.gamma);
  std::vector<T> out(q.size()), dq(q.size()), dk(k.size()), dv(v.size()), dw(w.size()), dgamma(gamma.size());
  const rapt::Shape shape{1, kHeads, kRows, draw.dim};
  const auto in = [&](const std::vector<T>& x) { return rapt::view(x.data(), shape); };
  rapt::AttendOptions options;
  options.score = score;
  options.path = path;
  rapt::Gradients gradients;
  gradients.q = rapt::view(dq.data(), shape);
  gradients.k = rapt::view(dk.data(), shape);
  gradients.v = {rapt::view(dv.data(), shape)};
  for (const rapt::ParameterSpec& spec : score.mechanism->parameters()) {
    const bool weights = spec.name == "w";
    const std::vector<T>& value = weights ? w : gamma;
    std::vector<T>& grad = weights ? dw : dgamma;
    const auto size = static_cast<std::int64_t>(value.size());
    options.score.parameters.push_back({std::string(spec.name), rapt::view(value.data(), {size})});
    gradients.parameters.push_back({std::string(spec.name), rapt::view(grad.data(), {size})});
  }
  rapt::Saved saved;
  rapt::Outputs outputs;
  outputs.out = {rapt::view(out.data(), shape)};
  outputs.saved = &saved;
  const rapt::Inputs inputs{in(q), in(k), {in(v)}};
  rapt::attend(inputs, outputs, options);
  rapt::attend_backward(inputs, {in(out)}, {in(grad_out)}, &saved, gradients, options);
  const auto wide = [](const std::vector<T>& x) { return std::vector<double>(x.begin(), x.end()); };
  return {wide(out), wide(dq), wide(dk), wide(dv), wide(dw)};
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t n = 0; n < a.size(); ++n) most = std::max(most, std::fabs(a[n] - b[n]));
  return most;
}

struct Case {
  const char* name;
  const char* score;
  const char* pair;
};

class PairPrecision : public testing::TestWithParam<Case> {};

TEST_P(PairPrecision, IsWithinTwiceTheNaiveErrorOverSeveralDraws) {
  const rapt::Score score = rapt::formula(GetParam().score, {.pair = GetParam().pair});
  // The largest error of one draw is luck; sums over several are not.
  std::array<double, kNames.size()> ours{}, naive{}, size{};
  constexpr unsigned kDraws = 4;
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    const Draw draw(160, seed + 1);
    const Results exact = run<double>(draw, score, rapt::Path::reference),
                  plain = run<float>(draw, score, rapt::Path::reference),
                  got = run<float>(draw, score, rapt::Path::automatic);
    for (std::size_t n = 0; n < kNames.size(); ++n) {
      ours[n] += distance(got[n], exact[n]);
      naive[n] += distance(plain[n], exact[n]);
      for (const double x : exact[n]) size[n] = std::max(size[n], std::fabs(x));
    }
  }
  for (std::size_t n = 0; n < kNames.size(); ++n)
    EXPECT_LE(ours[n], 2 * naive[n] + kDraws * 4 * 0x1p-24 * size[n]) << kNames[n] << " of " << GetParam().pair;
}

INSTANTIATE_TEST_SUITE_P(
    Pairs, PairPrecision,
    testing::Values(Case{"squares", "-gamma*raw", "abs(q-k)^2"}, Case{"distance", "-gamma*raw", "(k-q)^2"},
                    Case{"distances", "-gamma*raw", "abs(q-k)"}, Case{"weighted_squares", "-gamma*raw", "w^2*(q-k)^2"},
                    Case{"tanh", "raw", "w*tanh(q+k)"}, Case{"scaled_tanh", "raw", "1.5*w*tanh(q+k)"},
                    Case{"sigmoid", "raw", "w*sigmoid(q*k)"}, Case{"smallest", "gamma*raw", "min(q,k)"}),
    [](const auto& one) { return std::string(one.param.name); });

// The logarithm of the sum over one key is the score itself.
template <class T>
void erf_is_near(double bound) {
  std::vector<T> x, one{1};
  for (int n = -1400; n <= 1400; ++n) x.push_back(static_cast<T>(n) / 200);
  for (int n = 1; n <= 100; ++n) x.push_back(static_cast<T>(std::exp2(-n)));
  const auto infinite = std::numeric_limits<T>::infinity();
  for (const T other : {T(1e30), T(-1e30), infinite, -infinite, std::numeric_limits<T>::quiet_NaN(), T(0)})
    x.push_back(other);
  const auto rows = static_cast<std::int64_t>(x.size());
  std::vector<T> out(x.size()), lse(x.size());
  rapt::AttendOptions options;
  options.score = rapt::formula("erf(raw)");
  rapt::Outputs outputs;
  outputs.out = {rapt::view(out.data(), {1, 1, rows, 1})};
  outputs.lse = rapt::view(lse.data(), {1, 1, rows, 1});
  const auto key = rapt::view(std::as_const(one).data(), {1, 1, 1, 1});
  const rapt::Isa kept = rapt::active_isa();
  for (const rapt::Isa isa : rapt::available_isas()) {
    rapt::set_isa(isa);
    rapt::attend(rapt::Inputs{rapt::view(std::as_const(x).data(), {1, 1, rows, 1}), key, {key}}, outputs, options);
    for (std::size_t n = 0; n < x.size(); ++n) {
      const T want = static_cast<T>(std::erf(static_cast<long double>(x[n])));
      if (std::isnan(want)) EXPECT_TRUE(std::isnan(lse[n]));
      else EXPECT_LE(std::fabs(lse[n] - want), bound * std::numeric_limits<T>::epsilon() * std::fabs(want)) << x[n];
    }
  }
  rapt::set_isa(kept);
}

TEST(ErrorFunction, IsWithinFourPlacesOnEveryTarget) {
  erf_is_near<float>(4);
  erf_is_near<double>(4);
}

}  // namespace
