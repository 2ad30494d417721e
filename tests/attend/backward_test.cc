// Gradients of every mechanism against the oracle's reverse formulas, on every SIMD target and path.

#include <gtest/gtest.h>

#include "oracle/formulas.h"
#include "support/checks.h"

namespace {

using support::BackwardResult;
using support::BackwardWants;
using support::CaseSpec;
using support::Int;

class Backward : public testing::TestWithParam<support::MechanismAndType> {
 protected:
  CaseSpec spec(Int queries, Int keys) const {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = std::get<1>(GetParam());
    s.queries = queries;
    s.keys = keys;
    s.key_dim = 12;
    s.value_dims = {9};
    return s;
  }
};

TEST_P(Backward, EveryMask) {
  for (support::MaskKind mask : support::all_masks()) {
    for (const auto& [queries, keys] : {std::pair<Int, Int>{19, 37}, {41, 23}}) {
      CaseSpec s = spec(queries, keys);
      s.batch = mask == support::MaskKind::none ? 1 : 2;
      s.mask = mask;
      support::check_backward(s);
    }
  }
}

TEST_P(Backward, HardAttention) {
  CaseSpec s = spec(21, 35);
  s.batch = 2;
  s.mask = support::MaskKind::dense;
  s.bias = support::BiasKind::full;
  s.normalizer = support::NormalizerKind::argmax;
  support::check_backward(s);
}

TEST_P(Backward, MasksAcrossManyTiles) {
  for (support::MaskKind mask : {support::MaskKind::none, support::MaskKind::bottom_right, support::MaskKind::window,
                                 support::MaskKind::everything}) {
    CaseSpec s = spec(150, 211);
    s.heads = 1;
    s.mask = mask;
    support::check_backward(s);
  }
}

TEST_P(Backward, EveryBias) {
  for (support::BiasKind bias : support::all_biases()) {
    CaseSpec s = spec(18, 33);
    s.batch = 2;
    s.bias = bias;
    s.softcap = 1.5;
    s.mask = support::MaskKind::bottom_right;
    support::check_backward(s);
  }
}

TEST_P(Backward, ScaleGroupsAndParameters) {
  CaseSpec s = spec(20, 31);
  s.batch = 2;
  s.heads = 6;
  s.key_heads = 2;
  s.scale = 0.37;
  s.query_dim = 7;
  support::check_backward(s);
  s.scale.reset();
  s.per_head = false;
  s.settings = support::Settings::defaults;
  support::check_backward(s);
  s.optional_parameters = false;
  s.key_heads = 1;
  support::check_backward(s);
}

TEST_P(Backward, SeveralValueSetsInEveryLayout) {
  for (support::Layout layout : {support::Layout::bhsd, support::Layout::bshd, support::Layout::gaps}) {
    CaseSpec s = spec(18, 21);
    s.batch = 2;
    s.layout = layout;
    s.value_dims = {5, 1, 16};
    s.bias = support::BiasKind::per_batch;
    s.mask = support::MaskKind::top_left;
    support::check_backward(s);
  }
}

// Asking for fewer gradients must not change the others.
TEST_P(Backward, PartialRequestsGiveTheSameBits) {
  CaseSpec s = spec(40, 51);
  s.batch = 2;
  s.bias = support::BiasKind::per_head;
  s.value_dims = {9, 4};
  support::Call call(make_case(s));
  const BackwardResult full = call.backward();
  const auto only = [](bool q, bool k, bool v, bool bias, bool parameters) {
    BackwardWants wants;
    wants.q = q, wants.k = k, wants.v = v, wants.bias = bias, wants.parameters = parameters;
    return wants;
  };
  for (const BackwardWants& wants : {only(true, false, false, false, false), only(false, true, false, false, false),
                                     only(false, false, true, false, false), only(false, false, false, true, false),
                                     only(false, false, false, false, true), only(true, false, true, false, true),
                                     only(false, true, false, true, false), only(true, true, true, false, false)}) {
    const BackwardResult part = call.backward(wants);
    EXPECT_EQ(part.damage, "");
    for (const auto& [name, bits] : part.bits) EXPECT_TRUE(bits == full.bits.at(name)) << name;
  }
  EXPECT_TRUE(call.backward(only(false, false, false, false, false)).bits.empty());
}

INSTANTIATE_TEST_SUITE_P(All, Backward,
                         testing::Combine(testing::ValuesIn(oracle::formula_names()),
                                          testing::ValuesIn(support::all_dtypes())),
                         support::mechanism_and_type);

class BackwardShapes : public testing::TestWithParam<support::MechanismAndType> {};

TEST_P(BackwardShapes, OddSizesAndHeadDims) {
  struct Shape {
    Int queries, keys, key_dim, value_dim;
  };
  for (const Shape& shape : {Shape{1, 1, 1, 1},
                             {1, 17, 3, 7},
                             {17, 1, 7, 3},
                             {3, 63, 17, 33},
                             {63, 3, 33, 17},
                             {65, 17, 80, 64},
                             {17, 65, 96, 80},
                             {257, 63, 64, 3},
                             {63, 257, 5, 192},
                             {65, 65, 192, 256},
                             {33, 129, 256, 96},
                             {3, 5, 256, 1},
                             {129, 257, 32, 64},
                             {1, 257, 128, 128}}) {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = std::get<1>(GetParam());
    s.heads = 1;
    s.queries = shape.queries;
    s.keys = shape.keys;
    s.key_dim = shape.key_dim;
    s.value_dims = {shape.value_dim};
    s.seed = static_cast<std::uint64_t>(shape.queries * 1000 + shape.keys);
    support::check_backward(s);
  }
}

INSTANTIATE_TEST_SUITE_P(All, BackwardShapes,
                         testing::Combine(testing::ValuesIn(oracle::formula_names()),
                                          testing::Values(rapt::Dtype::f64, rapt::Dtype::f32)),
                         support::mechanism_and_type);

class BackwardSlow : public testing::TestWithParam<std::string> {};

TEST_P(BackwardSlow, AThousandKeys) {
  CaseSpec s;
  s.mechanism = GetParam();
  s.dtype = rapt::Dtype::f32;
  s.heads = 1;
  s.queries = 1000;
  s.keys = 999;
  s.key_dim = 48;
  s.value_dims = {40};
  s.mask = support::MaskKind::bottom_right;
  support::check_backward(s);
}

INSTANTIATE_TEST_SUITE_P(All, BackwardSlow, testing::ValuesIn(oracle::formula_names()), support::mechanism_name);

}  // namespace
