// Outputs, lse, weights and statistics of every mechanism against the oracle, on every SIMD target and path.

#include <gtest/gtest.h>

#include "oracle/formulas.h"
#include "support/checks.h"

namespace {

using support::CaseSpec;
using support::Int;

struct Shape {
  Int queries, keys, key_dim;
  std::vector<Int> value_dims;
};

CaseSpec with_shape(const std::string& mechanism, rapt::Dtype dtype, const Shape& shape) {
  CaseSpec spec;
  spec.mechanism = mechanism;
  spec.dtype = dtype;
  spec.queries = shape.queries;
  spec.keys = shape.keys;
  spec.key_dim = shape.key_dim;
  spec.value_dims = shape.value_dims;
  return spec;
}

class Forward : public testing::TestWithParam<support::MechanismAndType> {
 protected:
  CaseSpec spec(Int queries, Int keys) const {
    return with_shape(std::get<0>(GetParam()), std::get<1>(GetParam()), {queries, keys, 12, {9}});
  }
};

TEST_P(Forward, EveryMask) {
  for (support::MaskKind mask : support::all_masks()) {
    // More keys than queries, then fewer: the diagonals move.
    for (const auto& [queries, keys] : {std::pair<Int, Int>{19, 37}, {41, 23}}) {
      CaseSpec s = spec(queries, keys);
      s.batch = mask == support::MaskKind::none ? 1 : 2;
      s.mask = mask;
      support::check_forward(s);
    }
  }
}

TEST_P(Forward, EveryMaskWithHardAttention) {
  for (support::MaskKind mask : support::all_masks()) {
    CaseSpec s = spec(21, 35);
    s.batch = 2;
    s.mask = mask;
    s.normalizer = support::NormalizerKind::argmax;
    support::check_forward(s);
  }
}

TEST_P(Forward, MasksAcrossManyTiles) {
  for (support::MaskKind mask : {support::MaskKind::bottom_right, support::MaskKind::window,
                                 support::MaskKind::packed_top_left, support::MaskKind::everything}) {
    CaseSpec s = spec(150, 211);
    s.heads = 1;
    s.mask = mask;
    support::check_forward(s);
  }
}

TEST_P(Forward, EveryBias) {
  for (support::BiasKind bias : support::all_biases()) {
    CaseSpec s = spec(18, 33);
    s.batch = 2;
    s.bias = bias;
    s.softcap = 1.5;
    support::check_forward(s);
  }
}

TEST_P(Forward, ScaleGroupsAndParameters) {
  CaseSpec s = spec(20, 31);
  s.batch = 2;
  s.heads = 6;
  s.key_heads = 2;
  s.scale = 0.37;
  s.query_dim = 7;
  support::check_forward(s);
  s.scale.reset();
  s.per_head = false;
  s.settings = support::Settings::defaults;
  support::check_forward(s);
  s.optional_parameters = false;
  s.key_heads = 1;
  support::check_forward(s);
}

TEST_P(Forward, SeveralValueSetsInEveryLayout) {
  for (support::Layout layout : {support::Layout::bhsd, support::Layout::bshd, support::Layout::gaps}) {
    CaseSpec s = spec(18, 21);
    s.batch = 2;
    s.layout = layout;
    s.value_dims = {5, 1, 16};
    s.mask = support::MaskKind::top_left;
    support::check_forward(s);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Forward,
                         testing::Combine(testing::ValuesIn(oracle::formula_names()),
                                          testing::ValuesIn(support::all_dtypes())),
                         support::mechanism_and_type);

class ForwardShapes : public testing::TestWithParam<support::MechanismAndType> {};

TEST_P(ForwardShapes, OddSizesAndHeadDims) {
  const std::vector<Shape> shapes = {
      {1, 1, 1, {1}},       {1, 17, 3, {7}},      {17, 1, 7, {3}},      {3, 63, 17, {33}},
      {63, 3, 33, {17}},    {65, 17, 80, {64}},   {17, 65, 96, {80}},   {257, 63, 64, {3}},
      {63, 257, 5, {192}},  {65, 65, 192, {256}}, {33, 129, 256, {96}}, {3, 5, 256, {1}},
      {129, 257, 32, {64}}, {1, 257, 128, {128}}, {257, 1, 16, {16}},   {31, 32, 8, {200}},
  };
  for (const Shape& shape : shapes) {
    CaseSpec s = with_shape(std::get<0>(GetParam()), std::get<1>(GetParam()), shape);
    s.heads = 1;
    s.seed = static_cast<std::uint64_t>(shape.queries * 1000 + shape.keys);
    support::check_forward(s);
  }
}

TEST_P(ForwardShapes, EveryHeadDimUpTo40) {
  for (Int dim = 1; dim <= 40; ++dim) {
    CaseSpec s = with_shape(std::get<0>(GetParam()), std::get<1>(GetParam()), {5, 9, dim, {41 - dim}});
    s.heads = 1;
    support::check_forward(s);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ForwardShapes,
                         testing::Combine(testing::ValuesIn(oracle::formula_names()),
                                          testing::Values(rapt::Dtype::f64, rapt::Dtype::f32)),
                         support::mechanism_and_type);

// Long sequences, where sums of a thousand terms and many tiles meet.
class ForwardSlow : public testing::TestWithParam<std::string> {};

TEST_P(ForwardSlow, AThousandKeys) {
  CaseSpec s = with_shape(GetParam(), rapt::Dtype::f32, {1000, 1000, 64, {64}});
  s.heads = 1;
  support::check_forward(s);
}

TEST_P(ForwardSlow, AThousandKeysCausal) {
  CaseSpec s = with_shape(GetParam(), rapt::Dtype::f32, {999, 1001, 33, {17}});
  s.heads = 1;
  s.mask = support::MaskKind::bottom_right;
  support::check_forward(s);
}

INSTANTIATE_TEST_SUITE_P(All, ForwardSlow, testing::ValuesIn(oracle::formula_names()), support::mechanism_name);

}  // namespace
