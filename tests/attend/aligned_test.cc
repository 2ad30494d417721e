// Arrays that start at multiples of 16 bytes, with head dims that are multiples of 8: what a device's copy engine takes.

#include <gtest/gtest.h>

#include "support/checks.h"
#include "support/device.h"

namespace {

using support::CaseSpec;
using support::Int;

class Aligned : public testing::TestWithParam<std::tuple<std::string, rapt::Dtype>> {
 protected:
  CaseSpec spec(Int queries, Int keys, Int dim) const {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = std::get<1>(GetParam());
    s.layout = support::Layout::aligned;
    s.queries = queries;
    s.keys = keys;
    s.key_dim = dim;
    s.value_dims = {dim};
    return s;
  }
};

TEST_P(Aligned, EveryHeadDim) {
  for (const Int dim : {8, 64, 80, 128, 192, 256}) support::check_forward(spec(70, 150, dim));
}

TEST_P(Aligned, EveryMask) {
  for (const support::MaskKind mask : support::all_masks())
    for (const auto& [queries, keys] : {std::pair<Int, Int>{200, 333}, {333, 200}}) {
      CaseSpec s = spec(queries, keys, 64);
      s.batch = mask == support::MaskKind::none ? 1 : 2;
      s.mask = mask;
      support::check_forward(s);
    }
}

TEST_P(Aligned, PositionsSinkSoftcapAndGroups) {
  for (const support::PositionKind positions : support::all_positions()) {
    CaseSpec s = spec(65, 300, 128);
    s.batch = 2;
    s.heads = 4;
    s.key_heads = 2;
    s.positions = positions;
    s.mask = support::MaskKind::top_left;
    s.normalizer = support::NormalizerKind::softmax_sink;
    s.softcap = 2;
    support::check_forward(s);
  }
}

TEST_P(Aligned, OneQueryAndOneKey) {
  for (const auto& [queries, keys] : {std::pair<Int, Int>{1, 1}, {1, 700}, {150, 1}})
    support::check_forward(spec(queries, keys, 64));
}

TEST_P(Aligned, GradientsOfEveryHeadDim) {
  for (const Int dim : {8, 64, 80, 128, 192, 256}) {
    CaseSpec s = spec(150, 200, dim);
    s.mask = support::MaskKind::bottom_right;
    support::check_backward(s);
  }
}

TEST_P(Aligned, GradientsUnderEveryMask) {
  for (const support::MaskKind mask : support::all_masks())
    for (const auto& [queries, keys] : {std::pair<Int, Int>{200, 333}, {333, 200}}) {
      CaseSpec s = spec(queries, keys, 64);
      s.batch = mask == support::MaskKind::none ? 1 : 2;
      s.mask = mask;
      support::check_backward(s);
    }
}

TEST_P(Aligned, GradientsWithPositionsSinkSoftcapAndGroups) {
  for (const support::PositionKind positions : support::all_positions()) {
    CaseSpec s = spec(65, 300, 128);
    s.batch = 2;
    s.heads = 4;
    s.key_heads = 2;
    s.positions = positions;
    s.mask = support::MaskKind::top_left;
    s.normalizer = support::NormalizerKind::softmax_sink;
    s.softcap = 2;
    support::check_backward(s);
    s.softcap = 0;
    support::check_backward(s);
  }
}

TEST_P(Aligned, GradientsOfOneQueryAndOneKey) {
  for (const auto& [queries, keys] : {std::pair<Int, Int>{1, 1}, {1, 700}, {150, 1}})
    support::check_backward(spec(queries, keys, 64));
}

INSTANTIATE_TEST_SUITE_P(All, Aligned,
                         testing::Combine(testing::Values("dot", "scaled_dot", "alibi", "t5", "quadratic", "gaussian"),
                                          testing::Values(rapt::Dtype::bf16, rapt::Dtype::f16)),
                         support::mechanism_and_type);

}  // namespace
