// Arrays that start at multiples of 16 bytes, with head dims that are multiples of 8: what a device's copy engine takes.

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "attend/copied_call.h"
#include "support/checks.h"
#include "support/device.h"

namespace {

using support::CaseSpec;
using support::Int;

// Devices have large tiles; a processor's kernels have tests of their own, and these would take long there.
Int sized(Int rows) { return support::on_cpu() ? (rows + 2) / 3 : rows; }

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

  using Check = void (*)(const CaseSpec&);

  void under_every_mask(Check check) const {
    for (const support::MaskKind mask : support::all_masks())
      for (const auto& [queries, keys] : {std::pair<Int, Int>{200, 333}, {333, 200}}) {
        CaseSpec s = spec(sized(queries), sized(keys), 64);
        s.batch = mask == support::MaskKind::none ? 1 : 2;
        s.mask = mask;
        check(s);
      }
  }

  // Biases that are read in pairs, and with an odd number of keys those that are not.
  void with_every_bias(Check check) const {
    for (const support::BiasKind bias : support::all_biases()) {
      if (bias == support::BiasKind::none) continue;
      for (const auto& [queries, keys, dim] : {std::tuple<Int, Int, Int>{70, 270, 64}, {150, 141, 128}}) {
        CaseSpec s = spec(sized(queries), sized(keys), dim);
        s.batch = 2;
        s.key_heads = 1;
        s.bias = bias;
        s.mask = dim == 64 ? support::MaskKind::dense : support::MaskKind::top_left;
        s.normalizer = dim == 64 ? support::NormalizerKind::softmax_sink : support::NormalizerKind::softmax;
        check(s);
      }
    }
  }

  void with_hard_attention(Check check) const {
    for (const auto& [dim, mask, bias] : {std::tuple{Int{64}, support::MaskKind::dense, support::BiasKind::none},
                                          {Int{128}, support::MaskKind::window_bottom_right, support::BiasKind::full},
                                          {Int{200}, support::MaskKind::packed, support::BiasKind::none}}) {
      CaseSpec s = spec(sized(150), sized(300), dim);
      s.value_dims = {dim, 5};
      s.key_heads = 1;
      s.mask = mask;
      s.bias = bias;
      s.normalizer = support::NormalizerKind::argmax;
      check(s);
    }
  }

  void under_sigmoid(Check check) const {
    for (const auto& [dim, mask, bias] : {std::tuple{Int{64}, support::MaskKind::dense, support::BiasKind::full},
                                          {Int{80}, support::MaskKind::bottom_right, support::BiasKind::none},
                                          {Int{192}, support::MaskKind::key_lengths, support::BiasKind::per_head}}) {
      CaseSpec s = spec(sized(150), sized(200), dim);
      s.batch = 2;
      s.key_heads = 1;
      s.mask = mask;
      s.bias = bias;
      s.normalizer = support::NormalizerKind::sigmoid_b;
      check(s);
    }
  }

  void with_positions_sink_and_groups(Check check) const {
    for (const support::PositionKind positions : support::all_positions())
      for (const double softcap : {2.0, 0.0}) {
        CaseSpec s = spec(sized(65), sized(300), 128);
        s.batch = 2;
        s.heads = 4;
        s.key_heads = 2;
        s.positions = positions;
        s.mask = support::MaskKind::top_left;
        s.normalizer = support::NormalizerKind::softmax_sink;
        s.softcap = softcap;
        check(s);
      }
  }
};

TEST_P(Aligned, EveryHeadDim) {
  for (const Int dim : {8, 64, 80, 128, 192, 256}) support::check_forward(spec(70, 150, dim));
}

TEST_P(Aligned, EveryMask) { under_every_mask(support::check_forward); }

TEST_P(Aligned, EveryBias) { with_every_bias(support::check_forward); }

TEST_P(Aligned, BiasOfEveryHeadDim) {
  for (const Int dim : {8, 64, 128, 192, 256}) {
    CaseSpec s = spec(sized(70), sized(150), dim);
    s.bias = support::BiasKind::full;
    s.softcap = 1.5;
    s.mask = support::MaskKind::dense;
    support::check_forward(s);
  }
}

// Sets that a device computes as one, of any length each.
TEST_P(Aligned, SeveralValueSets) {
  for (const std::vector<Int>& dims : {std::vector<Int>{64, 5, 24}, {130, 126}, {200, 100}}) {
    CaseSpec s = spec(sized(90), sized(150), 64);
    s.batch = 2;
    s.key_heads = 1;
    s.value_dims = dims;
    s.mask = support::MaskKind::top_left;
    support::check_forward(s);
  }
}

TEST_P(Aligned, OutputsInFullPrecisionAndPartialResults) {
  for (const Int dim : {64, 72, 256}) {
    CaseSpec s = spec(sized(90), sized(150), dim);
    s.mask = support::MaskKind::bottom_right;
    s.value_dims = {dim, 16};
    if (dim == 256) s.value_dims = {dim};
    const support::Case c = make_case(s);
    support::Call call(c);
    std::vector<support::Buffer> out;
    rapt::Outputs outputs;
    for (const oracle::Array& v : c.problem.v)
      out.emplace_back(rapt::Dtype::f32, oracle::Sizes{1, 2, c.problem.queries(), v.shape[3]},
                       support::Layout::aligned);
    for (support::Buffer& buffer : out) outputs.out.push_back(buffer.view());
    rapt::attend_copied(call.device(), call.inputs, outputs, call.options);
    support::ForwardResult got;
    for (const support::Buffer& buffer : out) got.out.push_back(buffer.values());
    const support::Expected expected(c);
    EXPECT_TRUE(expected.matches(got)) << dim;
    support::ForwardWants partial;
    partial.partial = true;
    EXPECT_TRUE(expected.matches(call.forward(partial))) << dim;
  }
}

TEST_P(Aligned, HardAttention) { with_hard_attention(support::check_forward); }

TEST_P(Aligned, Sigmoid) { under_sigmoid(support::check_forward); }

TEST_P(Aligned, PositionsSinkSoftcapAndGroups) { with_positions_sink_and_groups(support::check_forward); }

TEST_P(Aligned, OneQueryAndOneKey) {
  for (const auto& [queries, keys] : {std::pair<Int, Int>{1, 1}, {1, 700}, {150, 1}})
    support::check_forward(spec(queries, keys, 64));
}

// Few queries and many keys, where a device splits the keys.
struct Few {
  Int queries, group, keys;
};

TEST_P(Aligned, FewQueriesAndManyKeys) {
  for (const Few& few :
       {Few{1, 1, 512}, {1, 16, 601}, {2, 8, 777}, {5, 3, 513}, {8, 4, 555}, {3, 16, 1030}, {1, 2, 5000}}) {
    CaseSpec s = spec(few.queries, few.keys, 16);
    s.heads = few.group;
    s.key_heads = 1;
    support::check_forward(s);
  }
}

TEST_P(Aligned, FewQueriesOfEveryHeadDim) {
  for (const auto& [key_dim, value_dim] :
       {std::pair<Int, Int>{8, 8}, {80, 80}, {128, 128}, {256, 256}, {40, 136}, {136, 40}})
    for (const Int queries : {1, 5}) {
      CaseSpec s = spec(queries, 530, key_dim);
      s.value_dims = {value_dim};
      s.heads = 2;
      s.key_heads = 1;
      support::check_forward(s);
    }
}

TEST_P(Aligned, FewQueriesUnderEveryMask) {
  for (const support::MaskKind mask : support::all_masks())
    for (const support::PositionKind positions : support::all_positions()) {
      if (!support::combine(mask, positions)) continue;
      CaseSpec s = spec(3, 523, 16);
      s.batch = 2;
      s.heads = 2;
      s.key_heads = 1;
      s.mask = mask;
      s.positions = positions;
      support::check_forward(s);
    }
}

TEST_P(Aligned, FewQueriesWithSinkAndSoftcap) {
  for (const double softcap : {0., 2.})
    for (const auto& [queries, keys] : {std::pair<Int, Int>{1, 1025}, {4, 600}}) {
      CaseSpec s = spec(sized(queries), sized(keys), 64);
      s.batch = 2;
      s.heads = 4;
      s.key_heads = 2;
      s.mask = support::MaskKind::top_left;
      s.positions = support::PositionKind::last;
      s.normalizer = support::NormalizerKind::softmax_sink;
      s.softcap = softcap;
      support::check_forward(s);
      s.mask = support::MaskKind::key_lengths;
      support::check_forward(s);
    }
}

TEST_P(Aligned, GradientsOfFewQueriesAndManyKeys) {
  CaseSpec s = spec(3, 650, 64);
  s.batch = 2;
  s.heads = 4;
  s.key_heads = 2;
  s.mask = support::MaskKind::bottom_right;
  s.normalizer = support::NormalizerKind::softmax_sink;
  support::check_backward(s);
}

// Keys and values past the lengths do not count; a key that only the last query sees spoils that query alone.
TEST_P(Aligned, FewQueriesAndHiddenNumbersThatAreNotFinite) {
  CaseSpec s = spec(4, 899, 64);
  s.batch = 3;
  s.heads = 8;
  s.key_heads = 2;
  const Int keys = make_case(s).problem.keys();  // a grid may have fewer
  const std::vector<Int> lengths = {keys, 0, 437};
  support::Case sound = make_case(s, [&](const CaseSpec&) {
    oracle::Mask mask;
    mask.key_lengths = lengths;
    return mask;
  });
  const auto spoil = [](oracle::Array& x, Int b, Int j, double value) {
    for (Int h = 0; h < x.shape[1]; ++h)
      for (Int d = 0; d < x.shape[3]; ++d) x.at(b, h, j, d) = value;
  };
  for (const double value : {double(NAN), HUGE_VAL, -HUGE_VAL}) {
    support::Case spoilt = sound;
    for (Int b = 0; b < 3; ++b)
      for (Int j = lengths[static_cast<std::size_t>(b)]; j < keys; ++j) {
        spoil(spoilt.problem.k, b, j, value);
        spoil(spoilt.problem.v[0], b, j, value);
      }
    EXPECT_TRUE(support::Expected(sound).matches(support::Call(spoilt).forward())) << value;
  }

  s.mask = support::MaskKind::bottom_right;
  sound = make_case(s);
  const oracle::Forward expected = oracle::forward(sound.problem);
  for (const double value : {double(NAN), HUGE_VAL}) {
    support::Case spoilt = sound;
    for (Int b = 0; b < 3; ++b) spoil(spoilt.problem.v[0], b, keys - 1, value);
    const support::ForwardResult got = support::Call(spoilt).forward();
    const double allowed = support::rounding_of(s.dtype) * support::largest(expected.out[0]);
    for (Int b = 0; b < 3; ++b)
      for (Int h = 0; h < 8; ++h)
        for (Int i = 0; i < 4; ++i)
          for (Int d = 0; d < 64; ++d) {
            const double x = got.out[0].at(b, h, i, d);
            if (i < 3) ASSERT_NEAR(x, expected.out[0].at(b, h, i, d), allowed) << "query " << i;
            else ASSERT_FALSE(std::isfinite(x));
          }
  }
}

// Gradients of parameters do not depend on which other gradients are asked for.
TEST_P(Aligned, ParametersAndHiddenNumbersThatAreNotFinite) {
  CaseSpec s = spec(sized(140), sized(200), 64);
  s.batch = 2;
  s.normalizer = support::NormalizerKind::softmax_sink;
  const Int keys = make_case(s).problem.keys(), length = keys / 2;
  const support::Case sound = make_case(s, [&](const CaseSpec&) {
    oracle::Mask mask;
    mask.key_lengths = {keys, length};
    return mask;
  });
  support::Case spoilt = sound;
  for (Int h = 0; h < spoilt.problem.v[0].shape[1]; ++h)
    for (Int j = length; j < keys; ++j)
      for (Int d = 0; d < 64; ++d) spoilt.problem.v[0].at(1, h, j, d) = NAN;
  const support::Expected expected(sound, true);
  for (const bool values : {false, true}) {
    support::BackwardWants wants;
    wants.q = wants.k = wants.bias = false;
    wants.v = values;
    EXPECT_TRUE(expected.matches(support::Call(spoilt).backward(wants))) << values;
  }
}

TEST_P(Aligned, GradientsOfEveryHeadDim) {
  for (const Int dim : {8, 64, 80, 128, 192, 256}) {
    CaseSpec s = spec(sized(150), sized(200), dim);
    s.mask = support::MaskKind::bottom_right;
    support::check_backward(s);
  }
}

TEST_P(Aligned, GradientsUnderEveryMask) { under_every_mask(support::check_backward); }

TEST_P(Aligned, GradientsWithEveryBias) { with_every_bias(support::check_backward); }

TEST_P(Aligned, GradientsWithBiasOfEveryHeadDim) {
  for (const Int dim : {8, 64, 128, 192, 256}) {
    CaseSpec s = spec(sized(150), sized(200), dim);
    s.bias = support::BiasKind::full;
    s.mask = support::MaskKind::dense;
    support::check_backward(s);
  }
}

TEST_P(Aligned, GradientsOfSeveralValueSets) {
  for (const std::vector<Int>& dims : {std::vector<Int>{64, 5, 24}, {100, 28}}) {
    CaseSpec s = spec(sized(150), sized(200), 64);
    s.batch = 2;
    s.key_heads = 1;
    s.value_dims = dims;
    s.mask = support::MaskKind::bottom_right;
    s.bias = dims.size() == 2 ? support::BiasKind::full : support::BiasKind::none;
    support::check_backward(s);
  }
}

TEST_P(Aligned, GradientsOfHardAttention) { with_hard_attention(support::check_backward); }

TEST_P(Aligned, GradientsUnderSigmoid) { under_sigmoid(support::check_backward); }

// A bias in f32 beside arrays of 16 bits, and one that hides pairs and whole rows with −∞.
TEST_P(Aligned, BiasInFullPrecisionThatHides) {
  for (const auto& [keys, dim] : {std::pair<Int, Int>{200, 64}, {131, 128}, {130, 192}}) {
    CaseSpec s = spec(sized(140), sized(keys), dim);
    s.batch = 2;
    s.bias = support::BiasKind::per_head;
    support::Case c = make_case(s);
    const Int queries = c.problem.queries();
    support::Random random(3);
    for (Int h = 0; h < 2; ++h)
      for (Int i = 0; i < queries; ++i)
        for (Int j = 0; j < c.problem.keys(); ++j)
          if (i % 7 == 3 || random.below(5) == 0) c.problem.bias.at(0, h, i, j) = -HUGE_VAL;
    const support::Expected expected(c, true);
    support::Call call(c);
    EXPECT_TRUE(expected.matches(call.forward()));
    EXPECT_TRUE(expected.matches(call.backward()));
    const support::Buffer bias(c.problem.bias, rapt::Dtype::f32, support::Layout::aligned);
    call.options.bias = bias.view();
    support::BackwardWants wants;
    wants.bias = false;
    EXPECT_TRUE(expected.matches(call.forward()));
    EXPECT_TRUE(expected.matches(call.backward(wants)));
  }
}

// Keys that no query sees for a dense mask or a bias of −∞ may be anything.
TEST_P(Aligned, DenselyHiddenNumbersThatAreNotFinite) {
  for (const bool by_bias : {false, true}) {
    CaseSpec s = spec(sized(100), sized(150), 64);
    s.bias = support::BiasKind::per_head;
    const auto hidden = [](Int j) { return j % 5 == 2; };
    support::Case c = make_case(s, [&](const CaseSpec& sizes) {
      oracle::Mask mask;
      mask.dense = oracle::Array({1, 1, sizes.queries, sizes.keys});
      for (Int i = 0; i < sizes.queries; ++i)
        for (Int j = 0; j < sizes.keys; ++j) mask.dense.at(0, 0, i, j) = by_bias || !hidden(j);
      return mask;
    });
    for (Int h = 0; by_bias && h < 2; ++h)
      for (Int i = 0; i < c.problem.queries(); ++i)
        for (Int j = 0; j < c.problem.keys(); ++j)
          if (hidden(j)) c.problem.bias.at(0, h, i, j) = -HUGE_VAL;
    support::Case spoilt = c;
    for (Int h = 0; h < 2; ++h)
      for (Int j = 0; j < c.problem.keys(); ++j)
        for (Int d = 0; hidden(j) && d < 64; ++d) {
          spoilt.problem.k.at(0, h, j, d) = j % 2 == 0 ? double(NAN) : HUGE_VAL;
          spoilt.problem.v[0].at(0, h, j, d) = NAN;
        }
    const support::Expected expected(c, true);
    EXPECT_TRUE(expected.matches(support::Call(spoilt).forward())) << by_bias;
    EXPECT_TRUE(expected.matches(support::Call(spoilt).backward())) << by_bias;
  }
}

TEST_P(Aligned, GradientsWithPositionsSinkSoftcapAndGroups) { with_positions_sink_and_groups(support::check_backward); }

TEST_P(Aligned, GradientsOfOneQueryAndOneKey) {
  for (const auto& [queries, keys] : {std::pair<Int, Int>{1, 1}, {1, 700}, {150, 1}})
    support::check_backward(spec(queries, keys, 64));
}

// Many heads and queries, where a device adds the gradients of queries up in one order over all keys.
class ManyHeads : public testing::TestWithParam<std::tuple<rapt::Dtype, support::MaskKind>> {
 protected:
  CaseSpec spec(Int queries, Int keys, Int dim) const {
    CaseSpec s;
    s.dtype = std::get<0>(GetParam());
    s.mask = std::get<1>(GetParam());
    s.layout = support::Layout::aligned;
    s.heads = support::on_cpu() ? 2 : 24;
    s.key_heads = s.heads / 2;
    s.queries = sized(queries);
    s.keys = sized(keys);
    s.key_dim = dim;
    s.value_dims = {dim};
    return s;
  }
};

TEST_P(ManyHeads, Gradients) { support::check_backward(spec(961, 270, 72)); }

TEST_P(ManyHeads, GradientsOfMoreKeysThanQueries) {
  if (std::get<1>(GetParam()) == support::MaskKind::bottom_right) support::check_backward(spec(970, 1100, 128));
}

INSTANTIATE_TEST_SUITE_P(All, ManyHeads,
                         testing::Combine(testing::Values(rapt::Dtype::bf16, rapt::Dtype::f16),
                                          testing::ValuesIn(support::all_masks())),
                         [](const auto& parameters) {
                           return std::string(rapt::name_of(std::get<0>(parameters.param))) + "_" +
                                  support::label(std::get<1>(parameters.param));
                         });

INSTANTIATE_TEST_SUITE_P(All, Aligned,
                         testing::Combine(testing::Values("dot", "scaled_dot", "alibi", "t5", "quadratic", "gaussian",
                                                          "additive"),
                                          testing::Values(rapt::Dtype::bf16, rapt::Dtype::f16)),
                         support::mechanism_and_type);

}  // namespace
