// The naive path itself: numbers worked out by hand, the edges of its contract, and finite differences.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/reference/backend.h"
#include "rapt/custom.h"
#include "rapt/registry.h"
#include "support/call.h"

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Numbers = std::vector<double>;

// One head with scores given by a bias: q and k are zeros of one number, so that only the bias counts.
struct Small {
  std::int64_t queries, keys;
  Numbers q, k, v, bias;
  rapt::AttendOptions options;

  Small(std::int64_t sq, std::int64_t sk, Numbers scores, Numbers values)
      : queries(sq),
        keys(sk),
        q(static_cast<std::size_t>(sq)),
        k(static_cast<std::size_t>(sk)),
        v(std::move(values)),
        bias(std::move(scores)) {}

  rapt::Problem problem() {
    options.path = rapt::Path::reference;
    if (!bias.empty()) options.bias = rapt::view(bias.data(), {queries, keys});
    const rapt::Inputs inputs{rapt::view(q.data(), {queries, 1}),
                              rapt::view(k.data(), {keys, 1}),
                              {rapt::view(v.data(), {keys, static_cast<std::int64_t>(v.size()) / keys})}};
    return rapt::make_problem("test", inputs, options);
  }
};

struct Result {
  Numbers out, lse, weights, entropy, position, covariance, top_weights, max, sum;
  std::vector<std::int64_t> argmax, top;
};

Result forward(Small& small, std::array<std::int64_t, 2> grid = {}) {
  rapt::Problem p = small.problem();
  const std::int64_t axes = grid[0] > 0 ? 2 : 1, dim = p.v[0].dim;
  const auto n = static_cast<std::size_t>(p.queries), top = n * 2, per_axis = static_cast<std::size_t>(axes);
  Result r;
  r.out.resize(n * static_cast<std::size_t>(dim));
  r.weights.resize(n * static_cast<std::size_t>(p.keys));
  r.lse.resize(n), r.entropy.resize(n), r.argmax.resize(n);
  r.position.resize(n * per_axis), r.covariance.resize(n * per_axis * per_axis);
  r.top_weights.resize(top), r.top.resize(top);
  rapt::Saved saved;
  rapt::Outputs outputs;
  outputs.out = {rapt::view(r.out.data(), {p.queries, dim})};
  outputs.lse = rapt::view(r.lse.data(), {p.queries, 1});
  outputs.weights = {{0, 0, 0, p.queries, rapt::view(r.weights.data(), {p.queries, p.keys})}};
  outputs.statistics.entropy = rapt::view(r.entropy.data(), {p.queries, 1});
  outputs.statistics.argmax = r.argmax.data();
  outputs.statistics.position = rapt::view(r.position.data(), {p.queries, axes});
  outputs.statistics.covariance = rapt::view(r.covariance.data(), {p.queries, axes, axes});
  outputs.statistics.top_k = 2;
  outputs.statistics.top_indices = r.top.data();
  outputs.statistics.top_weights = rapt::view(r.top_weights.data(), {p.queries, 2});
  outputs.statistics.grid = grid;
  outputs.saved = &saved;
  saved.rows()->resize(p.queries, p.is_double);
  rapt::reference_backend().forward(p, outputs)->run();
  r.max = saved.rows()->max_f64;
  r.sum = saved.rows()->sum_f64;
  return r;
}

struct Backward {
  Numbers q, k, v, bias;
};

Backward backward(Small& small, Numbers grad_out) {
  rapt::Problem p = small.problem();
  Backward r{Numbers(small.q.size(), kNaN), Numbers(small.k.size(), kNaN), Numbers(small.v.size(), kNaN),
             Numbers(small.bias.size(), kNaN)};
  rapt::Gradients gradients;
  gradients.q = rapt::view(r.q.data(), {p.queries, 1});
  gradients.k = rapt::view(r.k.data(), {p.keys, 1});
  gradients.v = {rapt::view(r.v.data(), {p.keys, p.v[0].dim})};
  if (!r.bias.empty()) gradients.bias = rapt::view(r.bias.data(), {p.queries, p.keys});
  const rapt::View g = rapt::view(grad_out.data(), {p.queries, p.v[0].dim});
  rapt::BackwardRequest request;
  request.grad_out = {rapt::make_operand("test", "grad_out", g)};
  request.gradients = gradients;
  rapt::reference_backend().backward(p, request);
  return r;
}

void expect_near(const Numbers& got, const Numbers& want, double error = 1e-14) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t n = 0; n < got.size(); ++n) EXPECT_NEAR(got[n], want[n], error) << n;
}

TEST(Reference, WeightsOfOneToThree) {
  Small small(1, 2, {0, std::log(3.0)}, {8, 16});
  const Result r = forward(small);
  expect_near(r.weights, {0.25, 0.75});
  expect_near(r.out, {14});
  expect_near(r.lse, {std::log(4.0)});
  expect_near(r.entropy, {0.25 * std::log(4.0) + 0.75 * std::log(4.0 / 3)});
  expect_near(r.position, {0.75});
  expect_near(r.covariance, {0.1875});
  expect_near(r.top_weights, {0.75, 0.25});
  EXPECT_EQ(r.argmax, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(r.top, (std::vector<std::int64_t>{1, 0}));
  expect_near(r.max, {std::log(3.0)});
  expect_near(r.sum, {4.0 / 3});
}

// dP = (8, 16), their mean under P is 14, dS = P(dP − 14).
TEST(Reference, GradientsOfOneToThree) {
  Small small(1, 2, {0, std::log(3.0)}, {8, 16});
  const Backward g = backward(small, {1});
  expect_near(g.v, {0.25, 0.75});
  expect_near(g.bias, {-1.5, 1.5});
  expect_near(g.q, {0});
  expect_near(g.k, {0, 0});
}

TEST(Reference, PositionsOnAGrid) {
  // A 2×2 grid, all weight on the two keys of the second column.
  Small small(1, 4, {-kInfinity, 0, -kInfinity, 0}, {0, 0, 0, 0});
  const Result r = forward(small, {2, 2});
  expect_near(r.position, {0.5, 1});
  expect_near(r.covariance, {0.25, 0, 0, 0});
}

TEST(Reference, ARowThatSeesNothing) {
  Small small(2, 2, {-kInfinity, -kInfinity, 0, 0}, {1, 3});
  const Result r = forward(small);
  expect_near(r.out, {0, 2});
  EXPECT_EQ(r.lse[0], -kInfinity);
  expect_near(r.weights, {0, 0, 0.5, 0.5});
  EXPECT_EQ(r.entropy[0], 0);
  EXPECT_EQ(r.position[0], 0);
  EXPECT_EQ(r.covariance[0], 0);
  EXPECT_EQ(r.argmax, (std::vector<std::int64_t>{-1, 0}));
  EXPECT_EQ(r.top, (std::vector<std::int64_t>{-1, -1, 0, 1}));
  expect_near(r.top_weights, {0, 0, 0.5, 0.5});
  // Nothing of the first row's gradient goes anywhere, not even a NaN.
  const Backward g = backward(small, {kNaN, 1});
  expect_near(g.v, {0.5, 0.5});
  expect_near(g.bias, {0, 0, -0.5, 0.5});
}

TEST(Reference, HiddenNaNsDoNotSpread) {
  Small small(2, 3, {}, {1, 3, kNaN});
  small.q = {2, 3};
  small.k = {1, 1, kNaN};
  small.options.mask.key_lengths = {2};
  const Result r = forward(small);
  expect_near(r.out, {2, 2});
  expect_near(r.lse, {2 + std::log(2.0), 3 + std::log(2.0)});
  // dS is ∓½ for the first query and twice that for the second.
  const Backward g = backward(small, {1, 2});
  expect_near(g.v, {1.5, 1.5, 0});
  expect_near(g.k, {-4, 4, 0});
  expect_near(g.q, {0, 0});
}

TEST(Reference, AVisibleNaNTakesItsRowOnly) {
  for (const rapt::Normalizer normalizer : {rapt::Normalizer::softmax, rapt::Normalizer::argmax}) {
    Small small(2, 3, {0, kNaN, -kInfinity, 0, 0, 1}, {1, 2, 3});
    small.options.normalizer = normalizer;
    const Result r = forward(small);
    EXPECT_TRUE(std::isnan(r.out[0]));
    EXPECT_TRUE(std::isnan(r.lse[0]));
    EXPECT_TRUE(std::isnan(r.weights[0]));
    EXPECT_EQ(r.weights[2], 0);
    EXPECT_TRUE(std::isfinite(r.out[1]));
    EXPECT_TRUE(std::isfinite(r.lse[1]));
  }
}

TEST(Reference, InfiniteScoresShareTheWeight) {
  Small small(1, 3, {kInfinity, 1e30, kInfinity}, {1, 2, 5});
  const Result r = forward(small);
  expect_near(r.weights, {0.5, 0, 0.5});
  expect_near(r.out, {3});
  EXPECT_EQ(r.lse[0], std::numeric_limits<double>::max());
}

TEST(Reference, TheFirstLargestScoreWins) {
  Small small(2, 4, {0, 3, 1, 3, -kInfinity, -kInfinity, -kInfinity, -kInfinity}, {1, 2, 4, 8});
  small.options.normalizer = rapt::Normalizer::argmax;
  const Result r = forward(small);
  expect_near(r.weights, {0, 1, 0, 0, 0, 0, 0, 0});
  expect_near(r.out, {2, 0});
  EXPECT_EQ(r.lse[0], 3);
  EXPECT_EQ(r.lse[1], -kInfinity);
  EXPECT_EQ(r.entropy[0], 0);
  EXPECT_EQ(r.argmax, (std::vector<std::int64_t>{1, -1}));
  EXPECT_EQ(r.sum, (Numbers{1, -1})) << "the chosen key";
  const Backward g = backward(small, {7, 1});
  expect_near(g.v, {0, 7, 0, 0});
  expect_near(g.bias, Numbers(8, 0.0));
  expect_near(g.q, {0, 0});
}

TEST(Reference, SoftcapComesBeforeTheBias) {
  Small small(1, 2, {0, 10}, {0, 1});
  small.q = {100};
  small.k = {1, -1};
  small.options.softcap = 2;
  const Result r = forward(small);
  const double cap = 2 * std::tanh(50.0);
  expect_near(r.lse, {std::log(std::exp(cap) + std::exp(10 - cap))});
}

// Custom hooks: what visible() hides is hidden here too.
struct Neighbours {
  static constexpr std::string_view formula = "q·k of the neighbours";
  template <class At>
  constexpr auto visible(const At& at) const {
    return abs(at.offset()) < 2;
  }
};

TEST(Reference, AHookHides) {
  Small small(3, 3, {}, {1, 2, 6});
  small.options.score = rapt::custom(Neighbours{});
  expect_near(forward(small).out, {1.5, 3, 4});
}

TEST(Reference, AZeroRowHasNoDirection) {
  Numbers tau = {2};
  Small small(2, 2, {}, {1, 3});
  small.q = {0, 5};
  small.k = {4, -3};
  small.options.score.mechanism = &rapt::mechanism("cosine");
  small.options.score.parameters = {{"tau", rapt::view(tau.data(), {1})}};
  const Result r = forward(small);
  expect_near(r.out, {2, (std::exp(2.0) + 3 * std::exp(-2.0)) / (std::exp(2.0) + std::exp(-2.0))});
  const Backward g = backward(small, {1, 1});
  expect_near(g.q, {0, 0});
  expect_near(g.k, {0, 0});
}

// Every gradient of every mechanism against central differences of the path's own outputs.
class ReferenceGradients : public testing::TestWithParam<std::string> {};

double loss(const support::Call& call, const support::Case& c) {
  rapt::Problem p = rapt::make_problem("test", call.inputs, call.options);
  std::vector<support::Buffer> out;
  rapt::Outputs outputs;
  for (const rapt::Operand& v : p.v)
    out.emplace_back(rapt::Dtype::f64, oracle::Sizes{p.batch, p.heads, p.queries, v.dim});
  for (support::Buffer& buffer : out) outputs.out.push_back(buffer.view());
  rapt::reference_backend().forward(p, outputs)->run();
  double sum = 0;
  for (std::size_t set = 0; set < out.size(); ++set) {
    const oracle::Array values = out[set].values();
    for (std::size_t n = 0; n < values.data.size(); ++n) sum += values.data[n] * c.grad_out[set].data[n];
  }
  return sum;
}

TEST_P(ReferenceGradients, MatchDifferences) {
  support::CaseSpec spec;
  spec.mechanism = GetParam();
  spec.batch = 2;
  spec.heads = 2;
  spec.key_heads = 1;
  spec.queries = 5;
  spec.keys = 6;
  spec.key_dim = 3;
  spec.value_dims = {2, 3};
  spec.bias = support::BiasKind::per_head_key;
  spec.mask = support::MaskKind::bottom_right;
  spec.softcap = 4;
  const support::Case c = support::make_case(spec);
  support::Call call(c);

  rapt::Problem p = rapt::make_problem("test", call.inputs, call.options);
  std::vector<rapt::Operand> grad_out;
  for (const rapt::ConstView& g : call.grad_out) grad_out.push_back(rapt::make_operand("test", "grad_out", g));
  std::vector<std::pair<support::Buffer*, support::Buffer>> pairs;
  std::vector<std::string> names;
  pairs.reserve(16);
  const auto gradient_of = [&](const std::string& name, support::Buffer& input) {
    pairs.emplace_back(&input, support::Buffer(rapt::Dtype::f64, input.shape()));
    names.push_back(name);
    return pairs.back().second.view();
  };
  rapt::Gradients gradients;
  gradients.q = gradient_of("q", call.q());
  gradients.k = gradient_of("k", call.k());
  for (std::size_t n = 0; n < p.v.size(); ++n) gradients.v.push_back(gradient_of("v" + std::to_string(n), call.v(n)));
  gradients.bias = gradient_of("bias", call.bias());
  for (const rapt::NamedView& parameter : call.options.score.parameters)
    gradients.parameters.push_back({parameter.name, gradient_of(parameter.name, call.parameter(parameter.name))});
  rapt::BackwardRequest request;
  request.grad_out = grad_out;
  request.gradients = gradients;
  rapt::reference_backend().backward(p, request);

  for (std::size_t n = 0; n < pairs.size(); ++n) {
    auto& [input, gradient] = pairs[n];
    EXPECT_EQ(gradient.damage(), "") << names[n];
    const oracle::Array values = input->values(), got = gradient.values();
    for (std::size_t e = 0; e < values.data.size(); ++e) {
      constexpr double kStep = 1e-5;
      oracle::Array moved = values;
      moved.data[e] += kStep;
      input->set(moved);
      const double above = loss(call, c);
      moved.data[e] -= 2 * kStep;
      input->set(moved);
      const double below = loss(call, c);
      input->set(values);
      EXPECT_NEAR(got.data[e], (above - below) / (2 * kStep), 1e-7) << names[n] << " element " << e;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ReferenceGradients, testing::ValuesIn(support::registered_names()),
                         [](const auto& mechanism) { return mechanism.param; });

}  // namespace
