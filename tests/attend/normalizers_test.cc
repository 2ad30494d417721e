// Every normaliser with every mechanism, mask and type: outputs, statistics and gradients against the oracle.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "oracle/formulas.h"
#include "support/checks.h"

namespace {

using support::CaseSpec;
using support::Int;
using support::NormalizerKind;

// +∞ counts as the largest finite number: which key is the first of the largest, and how large it is, follow from that.
template <class T>
void check_infinite_argmax(rapt::Path path) {
  constexpr T kMost = std::numeric_limits<T>::max(), kInf = std::numeric_limits<T>::infinity();
  constexpr Int kKeys = 70;
  std::vector<T> zeros(kKeys, T(0)), values(kKeys), bias(2 * kKeys, T(0)), out(2), lse(2);
  for (Int j = 0; j < kKeys; ++j) values[static_cast<std::size_t>(j)] = static_cast<T>(j);
  bias[3] = kMost;
  bias[5] = bias[66] = kInf;
  bias[kKeys + 66] = kInf;
  std::vector<std::int64_t> largest(2);
  rapt::AttendOptions options;
  options.normalizer = rapt::Normalizer::argmax;
  options.bias = rapt::view(bias.data(), {2, kKeys});
  options.path = path;
  rapt::Outputs outputs;
  outputs.out = {rapt::view(out.data(), {2, 1})};
  outputs.lse = rapt::view(lse.data(), {2, 1});
  outputs.statistics.argmax = largest.data();
  rapt::attend({.q = rapt::view(zeros.data(), {2, 1}),
                .k = rapt::view(zeros.data(), {kKeys, 1}),
                .v = {rapt::view(values.data(), {kKeys, 1})}},
               outputs, options);
  EXPECT_EQ(out, (std::vector<T>{3, 66}));
  EXPECT_EQ(largest, (std::vector<std::int64_t>{3, 66}));
  EXPECT_EQ(lse, (std::vector<T>{kMost, kMost}));
}

TEST(Argmax, TakesInfiniteScoresAsTheLargestNumber) {
  for (const rapt::Isa isa : rapt::available_isas()) {
    const support::IsaScope scope(isa);
    for (const rapt::Path path : {rapt::Path::automatic, rapt::Path::reference}) {
      check_infinite_argmax<float>(path);
      check_infinite_argmax<double>(path);
    }
  }
}

class Normalizers : public testing::TestWithParam<support::MechanismAndNormalizer> {
 protected:
  static CaseSpec spec(Int queries, Int keys, rapt::Dtype dtype = rapt::Dtype::f32) {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.normalizer = std::get<1>(GetParam());
    s.dtype = dtype;
    s.queries = queries;
    s.keys = keys;
    s.key_dim = 12;
    s.value_dims = {9};
    return s;
  }
  static void check(const CaseSpec& s) {
    support::check_forward(s);
    support::check_backward(s);
  }
};

TEST_P(Normalizers, EveryMask) {
  for (support::MaskKind mask : support::all_masks()) {
    CaseSpec s = spec(19, 30);
    s.batch = 2;
    s.mask = mask;
    check(s);
  }
}

TEST_P(Normalizers, EveryTypeWithBiasSoftcapAndGroups) {
  for (rapt::Dtype dtype : support::all_dtypes()) {
    CaseSpec s = spec(18, 23, dtype);
    s.batch = 2;
    s.heads = 4;
    s.key_heads = 2;
    s.softcap = 3;
    s.scale = 0.6;
    s.bias = support::BiasKind::per_head;
    s.mask = support::MaskKind::bottom_right;
    check(s);
  }
}

TEST_P(Normalizers, SeveralValueSetsInEveryLayout) {
  for (support::Layout layout : {support::Layout::bhsd, support::Layout::bshd, support::Layout::gaps}) {
    CaseSpec s = spec(18, 21);
    s.batch = 2;
    s.layout = layout;
    s.value_dims = {5, 1, 16};
    s.mask = support::MaskKind::top_left;
    check(s);
  }
}

TEST_P(Normalizers, AcrossManyTiles) {
  for (support::MaskKind mask : {support::MaskKind::none, support::MaskKind::bottom_right, support::MaskKind::window}) {
    CaseSpec s = spec(150, 211, rapt::Dtype::f64);
    s.heads = 1;
    s.mask = mask;
    check(s);
  }
}

TEST_P(Normalizers, OneQueryAndManyKeys) {
  CaseSpec s = spec(1, 1500, rapt::Dtype::f64);
  s.heads = 1;
  check(s);
}

INSTANTIATE_TEST_SUITE_P(All, Normalizers,
                         testing::Combine(testing::ValuesIn(oracle::formula_names()),
                                          testing::Values(NormalizerKind::softmax_sink, NormalizerKind::sparsemax,
                                                          NormalizerKind::entmax15, NormalizerKind::sigmoid,
                                                          NormalizerKind::sigmoid_b, NormalizerKind::sigmoid_one_b)),
                         support::mechanism_and_normalizer);

class NormalizerShapes : public testing::TestWithParam<support::MechanismAndNormalizer> {};

TEST_P(NormalizerShapes, OddSizesAndHeadDims) {
  struct Shape {
    Int queries, keys, key_dim, value_dim;
  };
  for (const Shape& shape : {Shape{1, 1, 1, 1},
                             {1, 17, 3, 7},
                             {17, 1, 7, 3},
                             {3, 63, 17, 33},
                             {63, 3, 33, 17},
                             {65, 17, 80, 64},
                             {257, 63, 64, 3},
                             {63, 257, 5, 192},
                             {33, 129, 256, 96},
                             {129, 257, 32, 64},
                             {1, 257, 128, 128}})
    for (rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32}) {
      CaseSpec s;
      s.mechanism = std::get<0>(GetParam());
      s.normalizer = std::get<1>(GetParam());
      s.dtype = dtype;
      s.heads = 1;
      s.queries = shape.queries;
      s.keys = shape.keys;
      s.key_dim = shape.key_dim;
      s.value_dims = {shape.value_dim};
      support::check_forward(s);
      support::check_backward(s);
    }
}

INSTANTIATE_TEST_SUITE_P(All, NormalizerShapes,
                         testing::Combine(testing::Values("scaled_dot", "additive", "shaw"),
                                          testing::ValuesIn(support::all_normalizers())),
                         support::mechanism_and_normalizer);

class NormalizersSlow : public testing::TestWithParam<NormalizerKind> {};

TEST_P(NormalizersSlow, AThousandKeys) {
  CaseSpec s;
  s.normalizer = GetParam();
  s.heads = 1;
  s.queries = 1000;
  s.keys = 999;
  s.key_dim = 48;
  s.value_dims = {40};
  s.mask = support::MaskKind::bottom_right;
  support::check_backward(s);
  s.dtype = rapt::Dtype::f32;
  support::check_forward(s);
}

INSTANTIATE_TEST_SUITE_P(All, NormalizersSlow, testing::ValuesIn(support::all_normalizers()), support::normalizer_name);

}  // namespace
