// The oracle itself: its reverse formulas against finite differences of its forward pass, and facts known in advance.

#include <gtest/gtest.h>

#include <cmath>

#include "oracle/formulas.h"
#include "oracle/oracle.h"
#include "support/cases.h"
#include "support/checks.h"

namespace {

using oracle::Array;
using oracle::Int;
using support::CaseSpec;

class OracleGradients : public testing::TestWithParam<std::string> {
 protected:
  static CaseSpec small(const std::string& mechanism) {
    CaseSpec spec;
    spec.mechanism = mechanism;
    spec.batch = 2;
    spec.queries = 6;
    spec.keys = 7;
    spec.query_dim = 4;
    spec.key_dim = 3;
    spec.value_dims = {2, 3};
    return spec;
  }

  static void check(const CaseSpec& spec) {
    SCOPED_TRACE(describe(spec));
    const support::Case c = make_case(spec);
    const oracle::Gradients reverse = oracle::backward(c.problem, c.grad_out);
    const oracle::Gradients differences = oracle::finite_differences(c.problem, c.grad_out);
    EXPECT_TRUE(support::agree(reverse, differences, 1e-7));
  }
};

TEST_P(OracleGradients, Plain) { check(small(GetParam())); }

TEST_P(OracleGradients, SharedParameters) {
  CaseSpec spec = small(GetParam());
  spec.per_head = false;
  spec.settings = support::Settings::defaults;
  check(spec);
}

TEST_P(OracleGradients, WithoutOptionalParameters) {
  CaseSpec spec = small(GetParam());
  spec.optional_parameters = false;
  check(spec);
}

TEST_P(OracleGradients, GroupedHeadsSoftcapBiasScaleAndMasks) {
  CaseSpec spec = small(GetParam());
  spec.heads = 4;
  spec.key_heads = 2;
  spec.softcap = 2;
  spec.scale = 0.7;
  spec.bias = support::BiasKind::per_head;
  spec.mask = support::MaskKind::everything;
  check(spec);
}

TEST_P(OracleGradients, HardAttentionMovesOnlyTheValues) {
  CaseSpec spec = small(GetParam());
  spec.normalizer = rapt::Normalizer::argmax;
  check(spec);
}

INSTANTIATE_TEST_SUITE_P(Formulas, OracleGradients, testing::ValuesIn(oracle::formula_names()),
                         support::mechanism_name);

TEST(Oracle, EveryBiasShapeHasItsGradient) {
  for (support::BiasKind bias : support::all_biases()) {
    SCOPED_TRACE(label(bias));
    CaseSpec spec;
    spec.batch = 2;
    spec.queries = 5;
    spec.keys = 4;
    spec.bias = bias;
    const support::Case c = make_case(spec);
    EXPECT_TRUE(support::agree(oracle::backward(c.problem, c.grad_out),
                               oracle::finite_differences(c.problem, c.grad_out), 1e-7));
  }
}

TEST(Oracle, KnowsWhatTheRegistryHas) {
  const auto registered = support::registered_names();
  for (const std::string& name : oracle::formula_names())
    EXPECT_NE(std::find(registered.begin(), registered.end(), name), registered.end()) << name;
}

TEST(Oracle, BucketsOfT5) {
  // 32 buckets up to distance 128: 0 … 7 exactly, then two for each doubling; keys after the query 16 higher.
  const std::pair<Int, Int> known[] = {{0, 0},    {-1, 1},   {-7, 7},   {-8, 8},   {-11, 8},  {-12, 9},   {-16, 10},
                                       {-23, 11}, {-32, 12}, {-64, 14}, {-90, 14}, {-91, 15}, {-128, 15}, {-5000, 15},
                                       {1, 17},   {7, 23},   {8, 24},   {64, 30},  {5000, 31}};
  for (const auto& [offset, bucket] : known) EXPECT_EQ(oracle::t5_bucket(offset, 32, 128), bucket) << offset;
}

TEST(Oracle, MasksByHand) {
  oracle::Problem p;
  p.mechanism = "dot";
  p.q = Array({2, 1, 3, 1});
  p.k = Array({2, 1, 5, 1});
  p.v = {Array({2, 1, 5, 1})};
  const auto row = [&](Int b, Int i) {
    std::string text;
    for (Int j = 0; j < 5; ++j) text += oracle::visible(p, b, 0, i, j) ? '1' : '0';
    return text;
  };
  EXPECT_EQ(row(0, 0), "11111");
  p.mask.causal = oracle::Causal::top_left;
  EXPECT_EQ(row(0, 0), "10000");
  EXPECT_EQ(row(0, 2), "11100");
  p.mask.causal = oracle::Causal::bottom_right;
  EXPECT_EQ(row(0, 0), "11100");
  EXPECT_EQ(row(0, 2), "11111");
  p.mask.window = oracle::Window{1, 0};
  EXPECT_EQ(row(0, 0), "01100");
  EXPECT_EQ(row(0, 2), "00011");
  p.mask.key_lengths = {4, 1};
  EXPECT_EQ(row(0, 2), "00010");
  EXPECT_EQ(row(1, 2), "00000");
  p.mask = {};
  p.mask.window = oracle::Window{0, 1};
  EXPECT_EQ(row(0, 0), "11000");
  EXPECT_EQ(row(0, 2), "00110");
  p.mask = {};
  p.mask.query_starts = {0, 1, 3};
  p.mask.key_starts = {0, 2, 5};
  EXPECT_EQ(row(0, 0), "11000");
  EXPECT_EQ(row(0, 1), "00111");
  p.mask.causal = oracle::Causal::top_left;
  EXPECT_EQ(row(0, 0), "10000");
  EXPECT_EQ(row(0, 1), "00100");
  p.mask.causal = oracle::Causal::bottom_right;
  EXPECT_EQ(row(0, 0), "11000");
  EXPECT_EQ(row(0, 1), "00110");
  EXPECT_EQ(row(0, 2), "00111");
}

TEST(Oracle, StatisticsByHand) {
  oracle::Forward f;
  f.weights = Array({1, 1, 2, 4}, {0.5, 0, 0, 0.5, 0, 0, 0, 0});
  const double hidden = -HUGE_VAL;
  f.scores = Array({1, 1, 2, 4}, {0, -800, hidden, 0, hidden, hidden, hidden, hidden});
  const oracle::Statistics line = oracle::statistics(f, 4);
  EXPECT_DOUBLE_EQ(line.entropy.data[0], std::log(2.0));
  EXPECT_DOUBLE_EQ(line.position.data[0], 1.5);
  EXPECT_DOUBLE_EQ(line.covariance.data[0], 2.25);
  EXPECT_EQ(line.argmax, (std::vector<Int>{0, -1}));
  EXPECT_EQ(line.top_indices, (std::vector<Int>{0, 3, 1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(line.entropy.data[1], 0);
  EXPECT_EQ(line.position.data[1], 0);
  const oracle::Statistics grid = oracle::statistics(f, 0, {2, 2});
  EXPECT_EQ(grid.position.data, (std::vector<double>{0.5, 0.5, 0, 0}));
  EXPECT_EQ(grid.covariance.data, (std::vector<double>{0.25, 0.25, 0.25, 0.25, 0, 0, 0, 0}));
}

TEST(Oracle, InfiniteScoresShareTheWeight) {
  oracle::Problem p;
  p.mechanism = "dot";
  p.q = Array({1, 1, 1, 1}, {1});
  p.k = Array({1, 1, 3, 1}, {HUGE_VAL, 5, HUGE_VAL});
  p.v = {Array({1, 1, 3, 1}, {1, 100, 3})};
  const oracle::Forward f = oracle::forward(p);
  EXPECT_EQ(f.weights.data, (std::vector<double>{0.5, 0, 0.5}));
  EXPECT_EQ(f.out[0].data[0], 2);
}

}  // namespace
