// The oracle itself: its reverse formulas against finite differences of its forward pass, and facts known in advance.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "oracle/formulas.h"
#include "oracle/oracle.h"
#include "oracle/positions.h"
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
    const Array* grad_lse = c.grad_lse.empty() ? nullptr : &c.grad_lse;
    const auto exact = oracle::Precision::exact;
    const oracle::Gradients reverse = oracle::backward(c.problem, c.grad_out, exact, nullptr, grad_lse);
    const oracle::Gradients differences = oracle::finite_differences(c.problem, c.grad_out, 1e-5, grad_lse);
    EXPECT_TRUE(support::agree(reverse, differences, 1e-7));
    // The row sums from outputs give the same.
    const std::vector<Array> out = oracle::forward(c.problem).out;
    EXPECT_TRUE(support::agree(reverse, oracle::backward(c.problem, c.grad_out, exact, &out, grad_lse), 1e-12));
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

TEST_P(OracleGradients, EveryNormalizer) {
  for (support::NormalizerKind normalizer : support::all_normalizers()) {
    CaseSpec spec = small(GetParam());
    spec.normalizer = normalizer;
    check(spec);
    spec.bias = support::BiasKind::per_key;
    spec.softcap = 2;
    spec.mask = support::MaskKind::everything;
    check(spec);
  }
}

TEST_P(OracleGradients, GradientOfLse) {
  for (support::NormalizerKind normalizer : {support::NormalizerKind::softmax, support::NormalizerKind::softmax_sink}) {
    CaseSpec spec = small(GetParam());
    spec.normalizer = normalizer;
    spec.grad_lse = true;
    check(spec);
    spec.mask = support::MaskKind::dense;
    check(spec);
  }
}

// One value set: only then may a table of values be given.
TEST_P(OracleGradients, PositionsSettingsAndRotary) {
  for (support::PositionKind positions : support::all_positions())
    for (support::Settings settings : {support::Settings::low, support::Settings::high, support::Settings::defaults}) {
      CaseSpec spec = small(GetParam());
      spec.queries = 4;
      spec.value_dims = {2};
      spec.positions = positions;
      spec.settings = settings;
      spec.rotary = settings == support::Settings::low ? support::RotaryKind::interleaved : support::RotaryKind::halves;
      spec.mask = support::MaskKind::window_left;
      check(spec);
    }
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

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

// Both ways: a mechanism or a normaliser without a formula here would pass most tests unseen.
TEST(Oracle, KnowsWhatTheRegistriesHave) {
  for (const std::string& name : support::registered_names())
    EXPECT_TRUE(oracle::knows(name)) << "the mechanism '" << name
                                     << "' has no second formula to be held to: write it in "
                                     << "tests/oracle/formulas.cc, in plain C++ and from its definition, and add it to "
                                     << "formula_names() and make_formula(), and to divides_by_root() if it is scaled";
  EXPECT_EQ(sorted(oracle::formula_names()), sorted(support::registered_names()));
  std::vector<std::string> normalizers;
  for (const rapt::NormalizerInfo& info : rapt::all_normalizers()) normalizers.emplace_back(info.name);
  EXPECT_EQ(sorted(normalizers), sorted({"softmax", "argmax", "sparsemax", "entmax15", "sigmoid"}));
}

TEST(Oracle, BucketsOfT5) {
  // 32 buckets up to distance 128: 0 … 7 exactly, then two for each doubling; keys after the query 16 higher.
  const std::pair<Int, Int> known[] = {{0, 0},    {-1, 1},   {-7, 7},   {-8, 8},   {-11, 8},  {-12, 9},   {-16, 10},
                                       {-23, 11}, {-32, 12}, {-64, 14}, {-90, 14}, {-91, 15}, {-128, 15}, {-5000, 15},
                                       {1, 17},   {7, 23},   {8, 24},   {64, 30},  {5000, 31}};
  for (const auto& [offset, bucket] : known) EXPECT_EQ(oracle::t5_bucket(offset, 32, 128), bucket) << offset;
}

TEST(Oracle, BucketsOfT5sDecoder) {
  // 32 buckets up to distance 128: 0 … 15 exactly, then sixteen for three doublings; keys after the query are at distance 0.
  const std::pair<Int, Int> known[] = {{0, 0},    {5, 0},    {-1, 1},    {-15, 15},  {-16, 16},
                                       {-32, 21}, {-64, 26}, {-127, 31}, {-128, 31}, {-5000, 31}};
  for (const auto& [offset, bucket] : known) EXPECT_EQ(oracle::t5_decoder_bucket(offset, 32, 128), bucket) << offset;
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
  // The last query stands at the batch's own last key.
  p.mask.key_lengths = {4, 1};
  EXPECT_EQ(row(0, 2), "00110");
  EXPECT_EQ(row(0, 0), "11000");
  EXPECT_EQ(row(1, 2), "10000");
  EXPECT_EQ(row(1, 1), "00000");
  p.mask = {};
  p.mask.causal = oracle::Causal::top_left;
  p.first_query = {1, -1};
  EXPECT_EQ(row(0, 0), "11000");
  EXPECT_EQ(row(0, 2), "11110");
  EXPECT_EQ(row(1, 0), "00000");
  EXPECT_EQ(row(1, 2), "11000");
  p.mask.window = oracle::Window{1, -1};
  EXPECT_EQ(row(0, 2), "00110");
  p.first_key = 2;
  EXPECT_EQ(row(0, 2), "11000");
  p.first_key = 0;
  p.first_query = {};
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
  const oracle::Statistics line = oracle::statistics(f, oracle::Normalizer::softmax, 4);
  EXPECT_DOUBLE_EQ(line.entropy.data[0], std::log(2.0));
  EXPECT_DOUBLE_EQ(line.position.data[0], 1.5);
  EXPECT_DOUBLE_EQ(line.covariance.data[0], 2.25);
  EXPECT_EQ(line.argmax, (std::vector<Int>{0, -1}));
  EXPECT_EQ(line.top_indices, (std::vector<Int>{0, 3, 1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(line.entropy.data[1], 0);
  EXPECT_EQ(line.position.data[1], 0);
  const oracle::Statistics grid = oracle::statistics(f, oracle::Normalizer::softmax, 0, {2, 2});
  EXPECT_EQ(grid.position.data, (std::vector<double>{0.5, 0.5, 0, 0}));
  EXPECT_EQ(grid.covariance.data, (std::vector<double>{0.25, 0.25, 0.25, 0.25, 0, 0, 0, 0}));
}

TEST(Oracle, StatisticsOfWeightsThatDoNotSumTo1) {
  oracle::Forward f;
  f.weights = Array({1, 1, 1, 3}, {0.2, 0.2, 0});
  f.scores = Array({1, 1, 1, 3}, {-1, -1, -2});
  const oracle::Statistics sigmoid = oracle::statistics(f, oracle::Normalizer::sigmoid, 3);
  EXPECT_DOUBLE_EQ(sigmoid.entropy.data[0], std::log(2.0));
  EXPECT_DOUBLE_EQ(sigmoid.position.data[0], 0.5);
  EXPECT_DOUBLE_EQ(sigmoid.covariance.data[0], 0.25);
  EXPECT_EQ(sigmoid.top_indices, (std::vector<Int>{0, 1, 2}));
  const oracle::Statistics with_sink = oracle::statistics(f, oracle::Normalizer::softmax, 0);
  EXPECT_DOUBLE_EQ(with_sink.entropy.data[0], -0.4 * std::log(0.2));
  EXPECT_DOUBLE_EQ(with_sink.position.data[0], 0.5);
}

// The definitions, not the way to the threshold: weights sum to 1 and follow from it.
TEST(Oracle, ThresholdsFulfilTheirDefinitions) {
  for (support::NormalizerKind normalizer : {support::NormalizerKind::sparsemax, support::NormalizerKind::entmax15}) {
    CaseSpec spec;
    spec.normalizer = normalizer;
    spec.keys = 40;
    spec.scale = 1;
    const oracle::Forward f = oracle::forward(make_case(spec).problem);
    for (std::size_t row = 0; row < f.lse.data.size(); ++row) {
      double sum = 0;
      for (std::size_t j = 0; j < 40; ++j) {
        const double above = std::max(f.scores.data[row * 40 + j] - f.lse.data[row], 0.0);
        const double weight = normalizer == support::NormalizerKind::sparsemax ? above : above * above / 4;
        ASSERT_NEAR(f.weights.data[row * 40 + j], weight, 1e-14);
        sum += weight;
      }
      ASSERT_NEAR(sum, 1, 1e-14);
    }
  }
}

TEST(Oracle, TheSinkTakesItsShare) {
  oracle::Problem p;
  p.mechanism = "dot";
  p.q = Array({1, 1, 2, 1}, {0, 0});
  p.k = Array({1, 1, 2, 1}, {1, 1});
  p.v = {Array({1, 1, 2, 1}, {3, 5})};
  p.normalizer_parameters["sink"] = Array({1, 1, 1, 1}, {std::log(2.0)});
  const oracle::Forward f = oracle::forward(p);
  EXPECT_DOUBLE_EQ(f.out[0].data[0], 2);
  EXPECT_DOUBLE_EQ(f.lse.data[0], std::log(4.0));
  EXPECT_DOUBLE_EQ(f.row_max.data[0], std::log(2.0));
  EXPECT_DOUBLE_EQ(f.row_sum.data[0], 2);
  // A row that sees no key sees nothing, sink or not.
  p.mask.key_lengths = {0};
  const oracle::Forward nothing = oracle::forward(p);
  EXPECT_EQ(nothing.out[0].data[0], 0);
  EXPECT_EQ(nothing.lse.data[0], -HUGE_VAL);
}

TEST(Oracle, PartsMergeToTheWhole) {
  for (const std::string& mechanism : oracle::formula_names()) {
    CaseSpec spec;
    spec.mechanism = mechanism;
    spec.queries = 8;
    spec.keys = 20;
    spec.positions = support::PositionKind::last;
    spec.mask = support::MaskKind::top_left;
    spec.rotary = support::RotaryKind::halves;
    const oracle::Problem whole = make_case(spec).problem;
    std::vector<oracle::Forward> parts;
    for (const auto& [first, end] : {std::pair<Int, Int>{0, 7}, {7, 7}, {7, whole.keys()}}) {
      oracle::Problem part = whole;
      const auto cut = [&, begin = first, last = end](Array& x) {
        const Array all = x;
        x = Array({all.shape[0], all.shape[1], last - begin, all.shape[3]});
        for (Int h = 0; h < x.shape[1]; ++h)
          for (Int j = 0; j < x.shape[2]; ++j)
            for (Int d = 0; d < x.shape[3]; ++d) x.at(0, h, j, d) = all.at(0, h, begin + j, d);
      };
      cut(part.k);
      cut(part.v[0]);
      part.first_key = first;
      parts.push_back(oracle::forward(part));
    }
    const oracle::Forward want = oracle::forward(whole), merged = oracle::merge(parts);
    EXPECT_TRUE(support::agree(merged.out[0], want.out[0], 1e-14)) << mechanism;
    EXPECT_TRUE(support::agree(merged.lse, want.lse, 1e-14)) << mechanism;
  }
}

TEST(Oracle, MinusInfinityHidesNaN) {
  oracle::Problem p;
  p.mechanism = "dot";
  p.q = Array({1, 1, 1, 1}, {1});
  p.k = Array({1, 1, 3, 1}, {NAN, 5, HUGE_VAL});
  p.v = {Array({1, 1, 3, 1}, {NAN, 100, 3})};
  p.bias = Array({1, 1, 1, 3}, {-HUGE_VAL, 0, -HUGE_VAL});
  const oracle::Forward f = oracle::forward(p);
  EXPECT_EQ(f.weights.data, (std::vector<double>{0, 1, 0}));
  EXPECT_EQ(f.out[0].data[0], 100);
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
