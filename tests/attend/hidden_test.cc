// −∞ in the bias hides a key whatever it holds: NaN and infinities too, on every path, forward and backward.

#include <gtest/gtest.h>

#include <cmath>

#include "oracle/formulas.h"
#include "support/checks.h"

namespace {

using oracle::Array;
using support::Call;
using support::Case;
using support::CaseSpec;
using support::Int;
using support::kPaths;
using support::label;

class Hidden : public testing::TestWithParam<support::MechanismAndType> {
 protected:
  static CaseSpec spec() {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = std::get<1>(GetParam());
    s.queries = 40;
    s.keys = 42;
    s.bias = support::BiasKind::per_key;
    return s;
  }
  // Keys at the start, in the middle and at the end.
  static std::vector<Int> keys_of(const Case& c) { return {0, 1, 17, 20, c.spec.keys - 1}; }

  static void spoil(Array& x, Int j, double value) {
    for (Int b = 0; b < x.shape[0]; ++b)
      for (Int h = 0; h < x.shape[1]; ++h)
        for (Int d = 0; d < x.shape[3]; ++d) x.at(b, h, j, d) = value;
  }
};

// The oracle's case has finite keys under a mask.
void check(const Case& spoilt, const Case& sound, const std::string& what) {
  const support::Expected expected(sound, true);
  support::ForwardWants wants;
  wants.weights = wants.statistics = true;
  wants.grid = sound.problem.grid;
  wants.top_k = 1;
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(std::string(label(path)) + ", " + what);
    Call call(spoilt);
    call.options.path = path;
    EXPECT_TRUE(expected.matches(call.forward()));
    EXPECT_TRUE(expected.matches(call.forward(wants)));
    EXPECT_TRUE(expected.matches(call.backward()));
    support::BackwardWants without_saved;
    without_saved.saved = false;
    EXPECT_TRUE(expected.matches(call.backward(without_saved)));
  }
}

TEST_P(Hidden, KeysMayHoldAnything) {
  for (support::NormalizerKind normalizer :
       {support::NormalizerKind::softmax, support::NormalizerKind::softmax_sink, support::NormalizerKind::argmax,
        support::NormalizerKind::sparsemax, support::NormalizerKind::entmax15, support::NormalizerKind::sigmoid}) {
    CaseSpec s = spec();
    s.normalizer = normalizer;
    Case sound = make_case(s);
    for (Int j : keys_of(sound)) sound.problem.bias.at(0, 0, 0, j) = -HUGE_VAL;
    for (const double value : {double(NAN), HUGE_VAL, -HUGE_VAL}) {
      Case spoilt = sound;
      for (Int j : keys_of(sound)) {
        spoil(spoilt.problem.k, j, value);
        spoil(spoilt.problem.v[0], j, value);
      }
      check(spoilt, sound, std::string(label(normalizer)) + " " + std::to_string(value));
    }
  }
}

TEST_P(Hidden, UnderSoftcapMasksAndRotary) {
  CaseSpec s = spec();
  s.softcap = 2;
  s.mask = support::MaskKind::bottom_right;
  s.rotary = support::RotaryKind::halves;
  Case sound = make_case(s);
  for (Int j : keys_of(sound)) sound.problem.bias.at(0, 0, 0, j) = -HUGE_VAL;
  Case spoilt = sound;
  for (Int j : keys_of(sound)) spoil(spoilt.problem.k, j, NAN);
  check(spoilt, sound, "NaN");
}

// A key that some rows see and others do not spoils the rows that see it, and only those.
TEST_P(Hidden, OnlyRowsThatSeeAKeyAreSpoilt) {
  CaseSpec s = spec();
  s.bias = support::BiasKind::per_head;
  Case c = make_case(s);
  const Int key = 20;
  const auto hides = [](Int i) { return i % 3 != 0; };
  for (Int h = 0; h < 2; ++h)
    for (Int i = 0; i < c.spec.queries; ++i)
      if (hides(i)) c.problem.bias.at(0, h, i, key) = -HUGE_VAL;
  const oracle::Forward sound = oracle::forward(c.problem);
  const support::Expected expected(c);
  // A mechanism that does not read its keys is not spoilt by them.
  spoil(c.problem.v[0], key, NAN);
  spoil(c.problem.k, key, NAN);
  const double allowed = support::rounding_of(s.dtype) * support::largest(sound.out[0]);
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(label(path));
    Call call(c);
    call.options.path = path;
    const support::ForwardResult r = call.forward();
    for (Int h = 0; h < 2; ++h)
      for (Int i = 0; i < c.spec.queries; ++i)
        for (Int d = 0; d < 8; ++d) {
          if (hides(i)) {
            ASSERT_NEAR(r.out[0].at(0, h, i, d), sound.out[0].at(0, h, i, d), allowed) << "row " << i;
          } else {
            ASSERT_TRUE(std::isnan(r.out[0].at(0, h, i, d))) << "row " << i;
          }
        }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Hidden,
                         testing::Combine(testing::ValuesIn(oracle::formula_names()),
                                          testing::Values(rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16)),
                         support::mechanism_and_type);

}  // namespace
