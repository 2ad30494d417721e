// Gradients of short sequences, of whole heads at a time, and of one query whose heads share keys: against the oracle, with the
// same bits on any number of threads, and untouched by what other heads hold.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/checks.h"
#include "support/storage.h"

namespace {

using support::BackwardResult;
using support::BackwardWants;
using support::Call;
using support::CaseSpec;
using support::Int;
using support::MaskKind;
using support::Random;

class ShortBackward : public testing::TestWithParam<rapt::Dtype> {};

TEST_P(ShortBackward, EverySizeUpToATile) {
  const Int sizes[] = {1, 2, 3, 7, 8, 9, 13, 15, 16, 17, 22, 31, 32, 33, 40, 47, 48, 49, 63, 64};
  const Int dims[] = {1, 3, 8, 16, 20, 24, 33, 40};
  const support::Layout layouts[] = {support::Layout::bhsd, support::Layout::bshd, support::Layout::gaps};
  Random random(3);
  Int n = 0;
  for (const Int queries : sizes) {
    CaseSpec s;
    s.dtype = GetParam();
    s.queries = queries;
    s.keys = sizes[random.below(std::size(sizes))];
    s.key_dim = dims[n % 8];
    s.value_dims = {dims[(n + 3) % 8]};
    s.layout = layouts[n % 3];
    s.batch = 1 + n % 3;
    s.key_heads = 1 + n % 2;
    s.heads = s.key_heads * (1 + n % 3);
    s.grad_lse = n % 4 == 0;
    s.seed = static_cast<std::uint64_t>(++n);
    support::check_backward(s);
    s.queries = s.keys;
    s.keys = queries;
    s.value_dims = {dims[n % 8], dims[(n + 1) % 8]};
    s.scale = -0.3;
    support::check_backward(s);
  }
}

TEST_P(ShortBackward, EveryMask) {
  for (const MaskKind mask : support::all_masks())
    for (const auto& [queries, keys] : {std::pair<Int, Int>{22, 37}, {64, 64}, {49, 16}}) {
      CaseSpec s;
      s.dtype = GetParam();
      s.batch = 2;
      s.heads = 4;
      s.key_heads = 2;
      s.queries = queries;
      s.keys = keys;
      s.key_dim = 16;
      s.value_dims = {24};
      s.mask = mask;
      s.rotary = support::RotaryKind::halves;
      support::check_backward(s);
    }
}

TEST_P(ShortBackward, GradientsThatAreNotWantedChangeNoOthers) {
  for (const MaskKind mask : {MaskKind::none, MaskKind::top_left}) {
    CaseSpec s;
    s.dtype = GetParam();
    s.batch = 3;
    s.queries = 21;
    s.keys = 34;
    s.value_dims = {9, 16};
    s.mask = mask;
    Call call(make_case(s));
    const BackwardResult full = call.backward();
    for (int bits = 1; bits < 8; ++bits) {
      BackwardWants wants;
      wants.q = bits & 1, wants.k = bits & 2, wants.v = bits & 4;
      const BackwardResult part = call.backward(wants);
      EXPECT_EQ(part.damage, "");
      for (const auto& [name, values] : part.bits) EXPECT_TRUE(values == full.bits.at(name)) << name;
    }
  }
}

// Tasks of many heads, of few, and of heads that share their keys.
TEST_P(ShortBackward, ThreadsChangeNoBit) {
  for (const Int key_heads : {1, 2, 6})
    for (const MaskKind mask : {MaskKind::none, MaskKind::key_lengths}) {
      CaseSpec s;
      s.dtype = GetParam();
      s.batch = 29;
      s.heads = 6;
      s.key_heads = key_heads;
      s.queries = 19;
      s.keys = 26;
      s.key_dim = 16;
      s.mask = mask;
      Call call(make_case(s));
      call.options.threads = 1;
      const BackwardResult alone = call.backward();
      for (const int threads : {2, 3, 5, 8}) {
        call.options.threads = threads;
        const BackwardResult shared = call.backward();
        EXPECT_EQ(shared.damage, "");
        EXPECT_TRUE(shared.bits == alone.bits) << threads << " threads, " << key_heads << " key heads";
      }
    }
}

// One query against a long cache: the heads of a group are rows of one head.
TEST_P(ShortBackward, ThreadsChangeNoBitOfGroupedHeads) {
  for (const Int keys : {40, 700, 2300}) {
    CaseSpec s;
    s.dtype = GetParam();
    s.batch = 2;
    s.heads = 10;
    s.key_heads = 2;
    s.queries = 1;
    s.keys = keys;
    s.key_dim = 24;
    s.value_dims = {20};
    s.grad_lse = true;
    Call call(make_case(s));
    call.options.threads = 1;
    const BackwardResult alone = call.backward();
    EXPECT_EQ(alone.damage, "");
    for (const int threads : {2, 4, 7}) {
      call.options.threads = threads;
      EXPECT_TRUE(call.backward().bits == alone.bits) << threads << " threads, " << keys << " keys";
    }
  }
}

// NaN and infinities in one head, visible there, leave every bit of the others.
TEST_P(ShortBackward, HeadsDoNotMeet) {
  CaseSpec s;
  s.dtype = GetParam();
  s.batch = 2;
  s.heads = 3;
  s.queries = 18;
  s.keys = 23;
  support::Case sound = make_case(s), spoilt = sound;
  for (double& x : spoilt.problem.v[0].data) {
    const auto place = static_cast<Int>(&x - spoilt.problem.v[0].data.data());
    if (place / (s.keys * s.value_dims[0]) == 4)
      x = place % 2 == 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  }
  const oracle::Gradients expected = Call(sound).backward().gradients, got = Call(spoilt).backward().gradients;
  const auto same = [&](const oracle::Array& a, const oracle::Array& b) {
    const Int each = a.shape[2] * a.shape[3];
    for (Int n = 0; n < a.size(); ++n) {
      if (n / each == 4) continue;
      ASSERT_EQ(a.data[static_cast<std::size_t>(n)], b.data[static_cast<std::size_t>(n)]) << n;
    }
  };
  same(expected.q, got.q);
  same(expected.k, got.k);
  same(expected.v[0], got.v[0]);
}

// A row of one key cannot change its weight: nothing is left of its gradient, whatever offset all rows have.
TEST_P(ShortBackward, ARowOfOneKeyHasNoGradient) {
  CaseSpec s;
  s.dtype = GetParam();
  s.queries = 33;
  s.keys = 33;
  s.key_dim = 20;
  s.value_dims = {12};
  s.mask = MaskKind::top_left;
  support::Case c = make_case(s);
  for (double& x : c.problem.k.data) x = std::round(x * 8) / 8 + 16;
  for (double& x : c.problem.v[0].data) x = std::round(x * 8) / 8 + 32;
  const oracle::Gradients got = Call(c).backward().gradients;
  for (Int h = 0; h < s.heads; ++h)
    for (Int d = 0; d < s.key_dim; ++d) EXPECT_EQ(got.q.at(0, h, 0, d), 0) << "head " << h << ", number " << d;
}

INSTANTIATE_TEST_SUITE_P(Types, ShortBackward, testing::ValuesIn(support::all_dtypes()),
                         [](const testing::TestParamInfo<rapt::Dtype>& type) {
                           return std::string(support::label(type.param));
                         });

}  // namespace
