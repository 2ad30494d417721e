// One query of heads that share keys and values: computed together, with the bits of each head alone.

#include <gtest/gtest.h>

#include "rapt/plan.h"
#include "support/checks.h"
#include "support/part_of.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using support::Call;
using support::CaseSpec;
using support::Int;
using support::MaskKind;

CaseSpec decoding(Int group, Int keys, rapt::Dtype dtype) {
  CaseSpec s;
  s.dtype = dtype;
  s.batch = 2;
  s.heads = 2 * group;
  s.key_heads = 2;
  s.queries = 1;
  s.keys = keys;
  s.key_dim = 20;
  s.value_dims = {19};
  return s;
}

void expect_the_bits_of_each_head(const CaseSpec& s) {
  SCOPED_TRACE(describe(s));
  Call call(make_case(s));
  const support::ForwardResult all = call.forward();
  EXPECT_EQ(all.damage, "");
  const Int group = s.heads / s.key_heads, dim = s.value_dims[0];
  for (Int h = 0; h < s.heads; ++h) {
    rapt::Inputs alone = call.inputs;
    alone.q = support::part_of(alone.q, 1, h, 1);
    alone.k = support::part_of(alone.k, 1, h / group, 1);
    alone.v = {support::part_of(alone.v[0], 1, h / group, 1)};
    support::Buffer out(s.dtype, {s.batch, 1, 1, dim});
    rapt::Outputs outputs;
    outputs.out = {out.view()};
    rapt::attend(alone, outputs, call.options);
    const Array got = out.values();
    for (Int b = 0; b < s.batch; ++b)
      for (Int d = 0; d < dim; ++d) ASSERT_EQ(got.at(b, 0, 0, d), all.out[0].at(b, h, 0, d)) << "head " << h;
  }
}

TEST(GroupedHeads, HaveTheBitsOfEachAlone) {
  for (const rapt::Isa isa : rapt::available_isas()) {
    const support::IsaScope scope(isa);
    for (const rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::f64, rapt::Dtype::bf16, rapt::Dtype::f16})
      for (const Int group : {2, 3, 5, 8, 11})
        for (const Int keys : {1, 7, 64, 150, 2100}) expect_the_bits_of_each_head(decoding(group, keys, dtype));
  }
}

TEST(GroupedHeads, StandWhereTheirQueryStands) {
  for (const MaskKind mask : {MaskKind::top_left, MaskKind::bottom_right, MaskKind::window, MaskKind::window_left,
                              MaskKind::key_lengths, MaskKind::dense_shared})
    for (const support::PositionKind positions : {support::PositionKind::none, support::PositionKind::last}) {
      CaseSpec s = decoding(4, 90, rapt::Dtype::f32);
      s.mask = mask;
      if (mask != MaskKind::bottom_right) s.positions = positions;
      s.softcap = 3;
      s.rotary = support::RotaryKind::halves;
      expect_the_bits_of_each_head(s);
      support::check_case(make_case(s));
    }
}

TEST(GroupedHeads, MatchTheOracle) {
  for (const rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::f64, rapt::Dtype::bf16, rapt::Dtype::f16})
    for (const Int group : {2, 4, 9})
      for (const Int keys : {5, 70, 1100})
        for (const support::Layout layout : {support::Layout::bhsd, support::Layout::bshd}) {
          CaseSpec s = decoding(group, keys, dtype);
          s.layout = layout;
          s.value_dims = {19, 8};
          SCOPED_TRACE(describe(s));
          support::check_case(make_case(s));
        }
}

// bf16 rows of one value set are read as they are stored, and their gradients written so.
TEST(GroupedHeads, OfOneValueSetMatchTheOracle) {
  for (const Int group : {2, 3, 5, 7, 8})
    for (const Int keys : {5, 70, 700})
      for (const MaskKind mask : {MaskKind::none, MaskKind::key_lengths, MaskKind::window}) {
        CaseSpec s = decoding(group, keys, rapt::Dtype::bf16);
        s.mask = mask;
        s.value_dims = {group % 2 == 0 ? 40 : 33};
        SCOPED_TRACE(describe(s));
        support::check_case(make_case(s));
      }
}

// What the heads of a group do not share does not mix.
TEST(GroupedHeads, KeepWhatIsTheirOwn) {
  for (const char* mechanism : {"alibi", "t5", "bilinear", "cosine", "additive"})
    for (const support::BiasKind bias : {support::BiasKind::none, support::BiasKind::per_head_key})
      for (const support::NormalizerKind normalizer :
           {support::NormalizerKind::softmax, support::NormalizerKind::softmax_sink,
            support::NormalizerKind::entmax15}) {
        CaseSpec s = decoding(3, 70, rapt::Dtype::f32);
        s.mechanism = mechanism;
        s.bias = bias;
        s.normalizer = normalizer;
        s.mask = MaskKind::dense;
        SCOPED_TRACE(describe(s));
        support::check_case(make_case(s));
      }
}

// A plan's arrays, lengths and positions change between its runs.
TEST(GroupedHeads, FollowAPlan) {
  CaseSpec s = decoding(4, 90, rapt::Dtype::f32);
  s.mask = MaskKind::key_lengths;
  Call first(make_case(s));
  s.seed = 2;
  Call second(make_case(s));
  support::Buffer out(s.dtype, {s.batch, s.heads, 1, 19}), other(s.dtype, {s.batch, s.heads, 1, 19});
  rapt::Outputs outputs;
  outputs.out = {out.view()};
  rapt::Plan plan(first.inputs, outputs, first.options);
  plan.run();
  for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{90, 3}, {1, 64}, {65, 0}}) {
    rapt::PlanArrays arrays;
    arrays.q = second.inputs.q.data;
    arrays.k = second.inputs.k.data;
    const std::vector<const void*> v{second.inputs.v[0].data};
    arrays.v = v;
    arrays.key_lengths = lengths;
    plan.run(arrays);
    rapt::AttendOptions options = second.options;
    options.mask.key_lengths = lengths;
    rapt::Outputs again;
    again.out = {other.view()};
    rapt::attend(second.inputs, again, options);
    EXPECT_EQ(out.values().data, other.values().data);
  }
}

}  // namespace
