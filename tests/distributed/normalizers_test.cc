// Normalisers whose weights have no partial sums, over processes: the ring and the cut heads have the same bits, with biases and
// masks, and with more processes than heads.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "distributed/processes.h"

namespace {

using rapt::Distribution;
using support::Case;
using support::CaseSpec;
using support::Int;
using support::NormalizerKind;
using support::distributed::check;
using support::distributed::Empty;
using support::distributed::long_spec;
using support::distributed::Result;
using support::distributed::run;
using support::distributed::Wants;

class DistributedNormalizers : public testing::TestWithParam<NormalizerKind> {
 protected:
  static CaseSpec spec() {
    CaseSpec s = long_spec();
    s.normalizer = GetParam();
    return s;
  }
};

TEST_P(DistributedNormalizers, EveryMask) {
  for (const support::MaskKind mask : support::all_masks()) {
    CaseSpec s = spec();
    s.mask = mask;
    check(s, {1, 3, 8});
  }
}

TEST_P(DistributedNormalizers, EveryBias) {
  for (const support::BiasKind bias : support::all_biases()) {
    CaseSpec s = spec();
    s.bias = bias;
    s.mask = support::MaskKind::bottom_right;
    check(s, {1, 2, 8});
    s.queries = 1;
    check(s, {1, 3});
  }
}

TEST_P(DistributedNormalizers, EveryTypeSeveralValuesAndRotary) {
  for (const rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::bf16, rapt::Dtype::f16}) {
    CaseSpec s = spec();
    s.dtype = dtype;
    s.value_dims = {5, 17};
    s.rotary = support::RotaryKind::halves;
    s.softcap = 4;
    s.mask = support::MaskKind::dense;
    check(s, {1, 2, 4});
  }
}

TEST_P(DistributedNormalizers, MechanismsWithParametersAndTables) {
  for (const char* mechanism : {"alibi", "t5", "shaw", "transformer_xl", "bilinear", "additive", "gaussian"})
    if (const auto names = support::registered_names(); std::ranges::find(names, mechanism) != names.end()) {
      CaseSpec s = spec();
      s.mechanism = mechanism;
      s.mask = support::MaskKind::top_left;
      check(s, {1, 2, 3, 8});
    }
}

TEST_P(DistributedNormalizers, OneHeadOfOddLength) {
  for (const Int size : {Int{1}, Int{17}, Int{49}, Int{257}, Int{700}}) {
    CaseSpec s = spec();
    s.batch = 1;
    s.heads = s.key_heads = 1;
    s.queries = s.keys = size;
    s.mask = support::MaskKind::top_left;
    check(s, {1, 2, 3, 8});
  }
}

TEST_P(DistributedNormalizers, HeadsGiveTheBitsOfTheRing) {
  for (const support::MaskKind mask :
       {support::MaskKind::none, support::MaskKind::packed_bottom_right, support::MaskKind::key_lengths}) {
    CaseSpec s = spec();
    s.mechanism = "alibi";
    s.mask = mask;
    const Case c = make_case(s);
    const auto ring = run(c, 3, {Distribution::ring}).bits();
    for (const int size : {1, 2, 4, 8}) EXPECT_TRUE(run(c, size, {Distribution::heads}).bits() == ring) << size;
    EXPECT_TRUE(run(c, 3).bits() == ring);
    EXPECT_TRUE(run(c, 3, {.distribution = Distribution::ring, .saved = false}).bits() == ring);
    EXPECT_TRUE(run(c, 2, {.distribution = Distribution::ring, .threads = 3}).bits() == ring);
    EXPECT_TRUE(run(c, 4, {.distribution = Distribution::ring, .delays = 5}).bits() == ring);
  }
}

TEST_P(DistributedNormalizers, EmptyArrays) {
  for (const auto& [queries, keys] : {std::pair<Int, Int>{300, 20}, {20, 300}, {0, 40}, {40, 0}}) {
    CaseSpec s = spec();
    s.queries = queries;
    s.keys = keys;
    const Case c = make_case(s);
    const auto first = run(c, 1, {.distribution = Distribution::ring}).bits();
    for (const Empty empty : {Empty::null, Empty::absent})
      EXPECT_TRUE(run(c, 3, {.distribution = Distribution::ring, .empty = empty}).bits() == first);
  }
}

// Equal scores, infinities and NaN: what one call makes of them, for any number of processes.
TEST_P(DistributedNormalizers, TiesAndScoresThatAreNotFinite) {
  CaseSpec s = spec();
  s.batch = 1;
  s.heads = s.key_heads = 1;
  s.queries = s.keys = 100;
  s.bias = support::BiasKind::full;
  Case c = make_case(s);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (double& x : c.problem.q.data) x = 0;
  oracle::Array& bias = c.problem.bias;
  for (Int i = 0; i < 100; ++i)
    for (Int j = 0; j < 100; ++j) {
      double& x = bias.at(0, 0, i, j);
      x = (i * 7 + j * 13) % 5;  // every score many times
      if (i % 10 == 3) x = -kInfinity;
      if (i % 10 == 4 && j % 40 == 21) x = kInfinity;
      if (i % 10 == 5 && j == 77) x = std::nan("");
    }
  const Result one = run(c, 1, {.distribution = Distribution::ring});
  const support::ForwardResult engine = support::Call(c).forward();
  const auto same = [](const oracle::Array& a, const oracle::Array& b) {
    return std::ranges::equal(a.data, b.data, [](double x, double y) { return x == y || (x != x && y != y); });
  };
  EXPECT_TRUE(same(one.forward.out[0], engine.out[0]));
  EXPECT_TRUE(same(one.forward.lse, engine.lse));
  for (const int size : {2, 3, 4, 8})
    EXPECT_TRUE(run(c, size, {.distribution = Distribution::ring}).bits() == one.bits());
}

INSTANTIATE_TEST_SUITE_P(All, DistributedNormalizers,
                         testing::Values(NormalizerKind::argmax, NormalizerKind::sparsemax, NormalizerKind::entmax15),
                         [](const auto& test) { return std::string(support::label(test.param)); });

}  // namespace
