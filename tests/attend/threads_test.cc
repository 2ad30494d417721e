// The same bits for any number of threads, and for calls that run at the same time.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/checks.h"
#include "support/sanitized.h"

namespace {

using support::Call;
using support::CaseSpec;
using support::Int;

constexpr int kThreadCounts[] = {2, 3, 5};

void check_bits(const CaseSpec& spec) {
  SCOPED_TRACE(describe(spec));
  Call call(make_case(spec));
  support::ForwardWants wants;
  wants.weights = wants.statistics = true;
  wants.top_k = 2;
  call.options.threads = 1;
  const support::ForwardResult plain = call.forward();
  const support::ForwardResult forward = call.forward(wants);
  const support::BackwardResult backward = call.backward();
  for (int threads : kThreadCounts) {
    call.options.threads = threads;
    EXPECT_TRUE(call.forward().bits == plain.bits) << threads << " threads: out and lse";
    EXPECT_TRUE(call.forward(wants).bits == forward.bits) << threads << " threads: all outputs";
    const support::BackwardResult other = call.backward();
    for (const auto& [name, bits] : backward.bits)
      EXPECT_TRUE(bits == other.bits.at(name)) << threads << " threads: d" << name;
  }
}

class ThreadsSameBits : public testing::TestWithParam<support::MechanismAndType> {
 protected:
  static CaseSpec spec() {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = std::get<1>(GetParam());
    s.key_dim = 24;
    s.value_dims = {20};
    return s;
  }
};

TEST_P(ThreadsSameBits, SeveralHeads) {
  CaseSpec s = spec();
  s.batch = 2;
  s.heads = 4;
  s.key_heads = 2;
  s.queries = 150;
  s.keys = 170;
  s.bias = support::BiasKind::per_head;
  s.mask = support::MaskKind::bottom_right;
  check_bits(s);
}

TEST_P(ThreadsSameBits, OneHeadManyTiles) {
  CaseSpec s = spec();
  s.heads = 1;
  s.queries = 300;
  s.keys = 500;
  check_bits(s);
}

// Fewer rows than threads: the keys may be split, but in the same way for every count.
TEST_P(ThreadsSameBits, OneQueryManyKeys) {
  CaseSpec s = spec();
  s.heads = 1;
  s.queries = 1;
  s.keys = 2500;
  check_bits(s);
}

TEST_P(ThreadsSameBits, ManyShortSequences) {
  CaseSpec s = spec();
  s.batch = 9;
  s.heads = 3;
  s.queries = 5;
  s.keys = 7;
  s.mask = support::MaskKind::dense;
  s.per_head = false;
  check_bits(s);
}

// A task takes several blocks of queries where threads are few, and one where they are many.
TEST_P(ThreadsSameBits, TasksOfSeveralBlocks) {
  CaseSpec s = spec();
  s.heads = 8;
  s.queries = 330;
  s.keys = 150;
  s.mask = support::MaskKind::window;
  check_bits(s);
}

INSTANTIATE_TEST_SUITE_P(Registry, ThreadsSameBits,
                         testing::Combine(testing::ValuesIn(support::registered_names()),
                                          testing::Values(rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16)),
                         support::mechanism_and_type);

// Gradients by offset, to which several tasks add: in one order, whichever blocks their masks let them pass over.
class ThreadsOffsets : public testing::TestWithParam<support::MaskKind> {};

TEST_P(ThreadsOffsets, SameBits) {
  CaseSpec s;
  s.mechanism = "transformer_xl";
  s.heads = 2;
  s.key_heads = 1;
  s.queries = support::unless_sanitized(4100, 2100);
  s.keys = s.queries - 40;
  s.key_dim = 4;
  s.value_dims = {3};
  s.mask = GetParam();
  Call call(make_case(s));
  call.options.threads = 1;
  const auto alone = call.backward().bits;
  for (const int threads : kThreadCounts) {
    call.options.threads = threads;
    EXPECT_EQ(call.backward().bits, alone) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Masks, ThreadsOffsets,
                         testing::Values(support::MaskKind::none, support::MaskKind::top_left,
                                         support::MaskKind::window, support::MaskKind::window_left,
                                         support::MaskKind::key_lengths, support::MaskKind::packed,
                                         support::MaskKind::packed_bottom_right));

class ThreadsNormalizers : public testing::TestWithParam<support::NormalizerKind> {};

TEST_P(ThreadsNormalizers, SameBits) {
  for (const char* mechanism : {"scaled_dot", "additive", "shaw", "gaussian"})
    for (rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16}) {
      CaseSpec s;
      s.mechanism = mechanism;
      s.dtype = dtype;
      s.normalizer = GetParam();
      s.batch = 2;
      s.heads = 4;
      s.key_heads = 2;
      s.queries = 90;
      s.keys = 130;
      s.bias = support::BiasKind::per_head;
      s.mask = support::MaskKind::top_left;
      s.positions = support::PositionKind::last;
      s.rotary = support::RotaryKind::halves;
      check_bits(s);
      // Fewer rows than threads.
      s.batch = s.heads = s.key_heads = s.queries = 1;
      s.keys = 1500;
      check_bits(s);
    }
}

INSTANTIATE_TEST_SUITE_P(All, ThreadsNormalizers, testing::ValuesIn(support::all_normalizers()),
                         support::normalizer_name);

// Threads share the keys of few heads: rows are merged as one thread merges its own.
TEST(Threads, ManyQueriesManyKeys) {
  for (const char* mechanism : {"scaled_dot", "t5"})
    for (rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16})
      for (Int queries : {33, 150}) {
        CaseSpec s;
        s.mechanism = mechanism;
        s.dtype = dtype;
        s.batch = 1;
        s.heads = 2;
        s.queries = queries;
        s.keys = 2100;
        s.key_dim = 24;
        s.value_dims = {20, 7};
        s.mask = support::MaskKind::bottom_right;
        check_bits(s);
      }
}

// Wide rows make tasks of few keys: here 192, and 179 in the last.
TEST(Threads, WideRows) {
  for (rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16}) {
    CaseSpec s;
    s.dtype = dtype;
    s.batch = 1;
    s.heads = s.key_heads = 8;
    s.queries = 17;
    s.keys = 371;
    s.key_dim = 256;
    s.value_dims = {256};
    check_bits(s);
    if (dtype == rapt::Dtype::f32) support::check_backward(s);
  }
}

TEST(Threads, RepeatedCallsGiveTheSameBits) {
  CaseSpec s;
  s.dtype = rapt::Dtype::f32;
  s.queries = s.keys = 200;
  Call call(make_case(s));
  call.options.threads = 5;
  const support::ForwardResult first = call.forward();
  const support::BackwardResult first_backward = call.backward();
  for (int n = 0; n < 20; ++n) {
    EXPECT_TRUE(call.forward().bits == first.bits);
    EXPECT_TRUE(call.backward().bits == first_backward.bits);
  }
}

TEST(Threads, CallsAtTheSameTimeDoNotDisturbEachOther) {
  const std::vector<std::string> names = support::registered_names();
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&, caller] {
      CaseSpec s;
      s.mechanism = names[static_cast<std::size_t>(caller) % names.size()];
      s.dtype = rapt::Dtype::f32;
      s.queries = s.keys = 120;
      s.seed = static_cast<std::uint64_t>(caller) + 10;
      Call call(make_case(s));
      call.options.threads = 1;
      const support::ForwardResult forward = call.forward();
      const support::BackwardResult backward = call.backward();
      call.options.threads = 1 + caller;
      for (int n = 0; n < 15; ++n) {
        if (call.forward().bits != forward.bits) ++wrong;
        if (call.backward().bits != backward.bits) ++wrong;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

// The kernels flush tiny results to 0; the caller's arithmetic is unaffected.
TEST(Threads, TheCallersTinyNumbersStay) {
  CaseSpec s;
  s.dtype = rapt::Dtype::f32;
  Call call(make_case(s));
  call.options.threads = 2;
  call.forward();
  call.backward();
  const volatile float smallest = 1.2e-38F;
  EXPECT_GT(smallest * 0.25F, 0.0F);
}

TEST(Threads, DefaultCountIsUsedAndChecked) {
  const int before = rapt::default_threads();
  EXPECT_GE(before, 1);
  rapt::set_default_threads(3);
  EXPECT_EQ(rapt::default_threads(), 3);
  rapt::set_default_threads(before);
  EXPECT_THROW(rapt::set_default_threads(0), std::exception);
}

}  // namespace
