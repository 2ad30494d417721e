// Scores that are hard for a normaliser: exact thresholds, ties, infinities, and facts known in advance.

#include <gtest/gtest.h>

#include <cmath>

#include "support/checks.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using support::Call;
using support::Case;
using support::Int;
using support::kPaths;
using support::label;
using Numbers = std::vector<double>;

// One row whose scores are these: q and k are zeros, so that only the bias counts.
oracle::Problem row_of(oracle::Normalizer normalizer, const Numbers& scores) {
  const Int keys = static_cast<Int>(scores.size());
  oracle::Problem p;
  p.mechanism = "dot";
  p.normalizer = normalizer;
  p.q = Array({1, 1, 1, 1});
  p.k = Array({1, 1, keys, 1});
  p.bias = Array({1, 1, 1, keys}, scores);
  support::Random random(3);
  p.v = {support::random_array({1, 1, keys, 3}, random, rapt::Dtype::bf16)};
  return p;
}

support::ForwardResult run(const oracle::Problem& p, rapt::Dtype dtype, rapt::Path path) {
  Call call(support::make_case(p, dtype));
  call.options.path = path;
  support::ForwardWants wants;
  wants.weights = wants.statistics = true;
  return call.forward(wants);
}

// Weights, threshold and output against the oracle on every path.
void check_row(const oracle::Problem& p, rapt::Dtype dtype, double tolerance) {
  const oracle::Forward want = oracle::forward(p);
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(std::string(label(path)) + " " + support::label(dtype));
    const support::ForwardResult got = run(p, dtype, path);
    EXPECT_EQ(got.damage, "");
    EXPECT_TRUE(support::agree(got.weights, want.weights, tolerance));
    EXPECT_TRUE(support::agree(got.lse, want.lse, tolerance));
    EXPECT_TRUE(support::agree(got.out[0], want.out[0], 2 * tolerance, support::largest(p.v[0])));
    double sum = 0;
    for (double w : got.weights.data) sum += w;
    if (p.normalizer != oracle::Normalizer::sigmoid) {
      EXPECT_NEAR(sum, 1, tolerance);
    }
  }
}

const std::vector<oracle::Normalizer> kSparse = {oracle::Normalizer::sparsemax, oracle::Normalizer::entmax15};

TEST(Thresholds, SparsemaxByHand) {
  // Three scores in reach of each other: τ = (1 + 0.6 + 0.5 − 1)/3. The fourth is below it.
  const support::ForwardResult r =
      run(row_of(oracle::Normalizer::sparsemax, {1, 0.6, -2, 0.5}), rapt::Dtype::f64, rapt::Path::automatic);
  const double threshold = 1.1 / 3;
  EXPECT_NEAR(r.lse.data[0], threshold, 1e-15);
  EXPECT_NEAR(r.weights.data[0], 1 - threshold, 1e-15);
  EXPECT_NEAR(r.weights.data[1], 0.6 - threshold, 1e-15);
  EXPECT_EQ(r.weights.data[2], 0);
  EXPECT_NEAR(r.weights.data[3], 0.5 - threshold, 1e-15);
  // A gap of 1 leaves one key.
  const support::ForwardResult alone =
      run(row_of(oracle::Normalizer::sparsemax, {3, 2, 1}), rapt::Dtype::f64, rapt::Path::automatic);
  EXPECT_EQ(Numbers(alone.weights.data), (Numbers{1, 0, 0}));
  EXPECT_EQ(alone.lse.data[0], 2);
}

TEST(Thresholds, EntmaxByHand) {
  // Two scores a and −a: τ = −√(2 − a²), weights ((±a + √(2 − a²))/2)².
  const double a = 0.3, root = std::sqrt(2 - a * a);
  const support::ForwardResult r =
      run(row_of(oracle::Normalizer::entmax15, {a, -a, -9}), rapt::Dtype::f64, rapt::Path::automatic);
  EXPECT_NEAR(r.lse.data[0], -root, 1e-15);
  EXPECT_NEAR(r.weights.data[0], 0.25 * (a + root) * (a + root), 1e-15);
  EXPECT_NEAR(r.weights.data[1], 0.25 * (root - a) * (root - a), 1e-15);
  EXPECT_EQ(r.weights.data[2], 0);
  // A gap of 2 leaves one key.
  const support::ForwardResult alone =
      run(row_of(oracle::Normalizer::entmax15, {3, 1, 1}), rapt::Dtype::f64, rapt::Path::automatic);
  EXPECT_EQ(Numbers(alone.weights.data), (Numbers{1, 0, 0}));
}

// No fixed number of bisections reaches these to rounding.
TEST(Thresholds, AreExactForScoresOfEverySpacing) {
  support::Random random(11);
  for (const Int keys : {1, 2, 3, 16, 65, 300, 5000}) {
    Numbers geometric, even, clustered, falling;
    for (Int j = 0; j < keys; ++j) {
      geometric.push_back(-std::ldexp(1.0, -static_cast<int>(j % 60)));
      even.push_back(1e-9 * double(random.below(1000)));
      clustered.push_back(double(j % 7) * 0.2 + 1e-7 * random.normal());
      falling.push_back(-double(j) * 0.01);
    }
    for (oracle::Normalizer normalizer : kSparse)
      for (const Numbers& scores : {geometric, even, clustered, falling}) {
        SCOPED_TRACE(keys);
        check_row(row_of(normalizer, scores), rapt::Dtype::f64, 1e-14 * std::sqrt(double(keys)));
        oracle::Problem p = row_of(normalizer, scores);
        for (double& e : p.bias.data) e = support::round_to(rapt::Dtype::f32, e);
        check_row(p, rapt::Dtype::f32, 1e-6 * std::sqrt(double(keys)));
      }
  }
}

TEST(Thresholds, EqualScoresShareTheWeight) {
  for (const Int keys : {1, 7, 64, 1000})
    for (oracle::Normalizer normalizer : kSparse)
      for (double score : {0.0, -3.5, 1e6, -1e30}) {
        const support::ForwardResult r = run(row_of(normalizer, Numbers(static_cast<std::size_t>(keys), score)),
                                             rapt::Dtype::f64, rapt::Path::automatic);
        for (double w : r.weights.data) ASSERT_NEAR(w, 1.0 / double(keys), 1e-15);
      }
}

TEST(Thresholds, LargeScoresAndInfinities) {
  const double inf = HUGE_VAL;
  for (rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32})
    for (rapt::Path path : kPaths)
      for (oracle::Normalizer normalizer : kSparse) {
        SCOPED_TRACE(label(path));
        EXPECT_EQ(run(row_of(normalizer, {1e30, -1e30, 0, 1e29}), dtype, path).weights.data, (Numbers{1, 0, 0, 0}));
        EXPECT_EQ(run(row_of(normalizer, {-1e30, -inf, -2e30}), dtype, path).weights.data, (Numbers{1, 0, 0}));
        const Array shared = run(row_of(normalizer, {inf, 5, inf}), dtype, path).weights;
        EXPECT_TRUE(support::agree(shared, Array({1, 1, 1, 3}, {0.5, 0, 0.5}), 1e-7));
        EXPECT_EQ(shared.data[1], 0);
        const support::ForwardResult nothing = run(row_of(normalizer, {-inf, -inf}), dtype, path);
        EXPECT_EQ(nothing.lse.data[0], -inf);
        EXPECT_EQ(support::largest(nothing.out[0]), 0);
      }
}

TEST(Sigmoid, NumbersByHand) {
  const double inf = HUGE_VAL;
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(label(path));
    // The default b is −log Sk.
    const support::ForwardResult r =
        run(row_of(oracle::Normalizer::sigmoid, {0, std::log(4.0), -inf, 1e30}), rapt::Dtype::f64, path);
    EXPECT_NEAR(r.weights.data[0], 0.2, 1e-15);
    EXPECT_NEAR(r.weights.data[1], 0.5, 1e-15);
    EXPECT_EQ(r.weights.data[2], 0);
    EXPECT_EQ(r.weights.data[3], 1);
    EXPECT_NEAR(r.lse.data[0], std::log(1.7), 1e-15);
    // Entropy and position are of the weights divided by their sum.
    double entropy = 0;
    for (double w : {0.2 / 1.7, 0.5 / 1.7, 1 / 1.7}) entropy -= w * std::log(w);
    EXPECT_NEAR(r.statistics.entropy.data[0], entropy, 1e-15);
    EXPECT_NEAR(r.statistics.position.data[0], (0.5 + 3) / 1.7, 1e-15);
    EXPECT_EQ(r.statistics.argmax[0], 3);
    oracle::Problem p = row_of(oracle::Normalizer::sigmoid, {-1e30, 2});
    p.normalizer_parameters["b"] = Array({1, 1, 1, 1}, {-2});
    const support::ForwardResult half = run(p, rapt::Dtype::f64, path);
    EXPECT_EQ(half.weights.data, (Numbers{0, 0.5}));
  }
}

// A sink is one more key whose value is 0.
TEST(Sink, EqualsAKeyWithoutAValue) {
  support::Random random(21);
  const Int queries = 40, keys = 50;
  oracle::Problem with_key;
  with_key.mechanism = "scaled_dot";
  with_key.q = support::random_array({2, 2, queries, 6}, random, rapt::Dtype::f64);
  with_key.k = support::random_array({2, 2, keys + 1, 6}, random, rapt::Dtype::f64);
  with_key.v = {support::random_array({2, 2, keys + 1, 4}, random, rapt::Dtype::f64)};
  with_key.bias = Array({1, 2, 1, keys + 1});
  const double sinks[] = {1.5, 4};
  for (Int h = 0; h < 2; ++h) {
    with_key.bias.at(0, h, 0, keys) = sinks[h];
    for (Int b = 0; b < 2; ++b) {
      for (Int d = 0; d < 6; ++d) with_key.k.at(b, h, keys, d) = 0;
      for (Int d = 0; d < 4; ++d) with_key.v[0].at(b, h, keys, d) = 0;
    }
  }
  oracle::Problem with_sink = with_key;
  with_sink.bias = {};
  with_sink.normalizer_parameters["sink"] = Array({1, 2, 1, 1}, {1.5, 4});
  const auto cut = [&](const Array& x) {
    Array y({2, 2, keys, x.shape[3]});
    for (Int b = 0; b < 2; ++b)
      for (Int h = 0; h < 2; ++h)
        for (Int j = 0; j < keys; ++j)
          for (Int d = 0; d < x.shape[3]; ++d) y.at(b, h, j, d) = x.at(b, h, j, d);
    return y;
  };
  with_sink.k = cut(with_key.k);
  with_sink.v = {cut(with_key.v[0])};
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(label(path));
    Call key_call(support::make_case(with_key, rapt::Dtype::f64));
    Call sink_call(support::make_case(with_sink, rapt::Dtype::f64));
    key_call.options.path = sink_call.options.path = path;
    const support::ForwardResult a = key_call.forward(), b = sink_call.forward();
    EXPECT_TRUE(support::agree(a.out[0], b.out[0], 1e-14));
    EXPECT_TRUE(support::agree(a.lse, b.lse, 1e-14));
    const support::BackwardResult da = key_call.backward(), db = sink_call.backward();
    EXPECT_TRUE(support::agree(da.gradients.q, db.gradients.q, 1e-13));
    const Array& d_sink = db.gradients.parameters.at("sink");
    for (Int h = 0; h < 2; ++h)
      EXPECT_NEAR(da.gradients.bias.at(0, h, 0, keys), d_sink.data[static_cast<std::size_t>(h)], 1e-13);
  }
}

// Rows that see nothing: zero, −inf, −1 and no gradient, also of the normaliser's own parameters.
TEST(RowsThatSeeNothing, UnderEveryNormalizer) {
  for (support::NormalizerKind normalizer : support::all_normalizers())
    for (rapt::Dtype dtype : support::all_dtypes())
      for (rapt::Path path : kPaths) {
        SCOPED_TRACE(std::string(label(normalizer)) + " " + support::label(dtype) + " " + label(path));
        support::CaseSpec s;
        s.normalizer = normalizer;
        s.dtype = dtype;
        s.bias = support::BiasKind::full;
        Case c = make_case(s);
        c.problem.mask.key_lengths = {0};
        Call call(c);
        call.options.path = path;
        support::ForwardWants wants;
        wants.weights = wants.statistics = true;
        wants.top_k = 2;
        wants.partial = c.problem.normalizer == oracle::Normalizer::softmax;
        const support::ForwardResult r = call.forward(wants);
        EXPECT_EQ(r.damage, "");
        for (double e : r.lse.data) ASSERT_EQ(e, -HUGE_VAL);
        for (double e : r.row_max.data) ASSERT_EQ(e, -HUGE_VAL);
        const auto all_zero = [](const Array& x, const char* name) {
          for (double e : x.data) ASSERT_EQ(e, 0) << name;
        };
        all_zero(r.out[0], "out");
        all_zero(r.row_sum, "row_sum");
        all_zero(r.weights, "weights");
        all_zero(r.statistics.entropy, "entropy");
        all_zero(r.statistics.position, "position");
        all_zero(r.statistics.covariance, "covariance");
        all_zero(r.statistics.top_weights, "top_weights");
        for (Int e : r.statistics.argmax) ASSERT_EQ(e, -1);
        for (Int e : r.statistics.top_indices) ASSERT_EQ(e, -1);
        const support::BackwardResult b = call.backward();
        EXPECT_EQ(b.damage, "");
        all_zero(b.gradients.q, "dq");
        all_zero(b.gradients.k, "dk");
        all_zero(b.gradients.v[0], "dv");
        all_zero(b.gradients.bias, "dbias");
        for (const auto& [name, value] : b.gradients.parameters) all_zero(value, name.c_str());
      }
}

}  // namespace
