// One call over several processes: the oracle's numbers, and the same bits for any number of processes.

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "distributed/processes.h"
#include "rapt/distributed.h"
#include "rapt/error.h"
#include "support/checks.h"

namespace {

using oracle::Array;
using rapt::Distribution;
using support::Buffer;
using support::Case;
using support::CaseSpec;
using support::Int;
using support::distributed::check;
using support::distributed::long_spec;
using support::distributed::Processes;
using support::distributed::Result;
using support::distributed::rows_of;
using support::distributed::run;
using support::distributed::Wants;

class DistributedMechanisms : public testing::TestWithParam<std::string> {};

TEST_P(DistributedMechanisms, AnyNumberOfProcesses) {
  for (const rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::f64}) {
    CaseSpec s = long_spec();
    s.mechanism = GetParam();
    s.dtype = dtype;
    s.mask = support::MaskKind::top_left;
    check(s);
  }
}

TEST_P(DistributedMechanisms, UnequalLengths) {
  CaseSpec s = long_spec();
  s.mechanism = GetParam();
  s.queries = 67;
  s.positions = support::PositionKind::last;
  check(s, {1, 3, 4});
}

INSTANTIATE_TEST_SUITE_P(All, DistributedMechanisms, testing::ValuesIn(support::registered_names()),
                         [](const auto& test) { return test.param; });

TEST(Distributed, EveryMask) {
  for (const char* mechanism : {"scaled_dot", "alibi"})
    for (const support::MaskKind mask : support::all_masks()) {
      CaseSpec s = long_spec();
      s.mechanism = mechanism;
      s.mask = mask;
      check(s, {1, 2, 4, 8});
    }
}

TEST(Distributed, EveryBias) {
  for (const support::BiasKind bias : support::all_biases()) {
    CaseSpec s = long_spec();
    s.bias = bias;
    s.mask = support::MaskKind::bottom_right;
    check(s, {1, 3, 4});
    // One query: most processes have no row of it, and hear of its bias all the same.
    s.queries = 1;
    check(s, {1, 2, 3});
  }
}

TEST(Distributed, SinkSoftcapRotaryAndSeveralValues) {
  CaseSpec s = long_spec();
  s.normalizer = support::NormalizerKind::softmax_sink;
  s.softcap = 3;
  s.rotary = support::RotaryKind::halves;
  s.value_dims = {5, 17};
  s.mask = support::MaskKind::window;
  check(s);
  s.dtype = rapt::Dtype::f64;
  s.grad_lse = true;
  check(s, {1, 2, 3});
}

TEST(Distributed, PositionsOfEachBatch) {
  for (const support::PositionKind positions : {support::PositionKind::one, support::PositionKind::per_batch}) {
    CaseSpec s = long_spec();
    s.mechanism = "alibi";
    s.positions = positions;
    s.mask = support::MaskKind::top_left;
    check(s, {1, 3});
  }
}

TEST(Distributed, ShortStorageTypes) {
  for (const rapt::Dtype dtype : {rapt::Dtype::bf16, rapt::Dtype::f16}) {
    CaseSpec s = long_spec();
    s.dtype = dtype;
    s.mask = support::MaskKind::top_left;
    check(s, {1, 2, 4});
  }
}

// What keys and values have in common is large in dO·v and in δ, and not in their difference: δ must not be of rounded outputs.
TEST(Distributed, RoundedOutputsSpoilNoGradient) {
  const auto size_of_all = [](const std::vector<double>& list) {
    double sum = 0;
    for (const double x : list) sum += x * x;
    return std::sqrt(sum);
  };
  for (const auto& [dtype, bound] : {std::pair{rapt::Dtype::bf16, 1.2e-2}, {rapt::Dtype::f16, 1.5e-3}}) {
    CaseSpec s = long_spec();
    s.dtype = dtype;
    s.mask = support::MaskKind::top_left;
    Case c = make_case(s);
    for (Array* array : {&c.problem.k, c.problem.v.data()}) {
      for (double& x : array->data) x += 2;
      *array = Buffer(*array, dtype).values();
    }
    Case exact = c;
    exact.spec.dtype = rapt::Dtype::f64;
    const std::vector<double> right = run(exact, 1).backward.gradients.q.data;
    const auto first = run(c, 1, {Distribution::ring}).bits();
    for (const Distribution way : {Distribution::ring, Distribution::heads})
      for (const bool saved : {true, false}) {
        const Result got = run(c, 3, {way, saved});
        EXPECT_TRUE(got.bits() == first);
        std::vector<double> wrong = got.backward.gradients.q.data;
        for (std::size_t n = 0; n < wrong.size(); ++n) wrong[n] -= right[n];
        EXPECT_LT(size_of_all(wrong), bound * size_of_all(right));
      }
  }
}

TEST(Distributed, OddSizes) {
  for (const Int size : {Int{1}, Int{3}, Int{16}, Int{17}, Int{33}, Int{257}, Int{1000}}) {
    CaseSpec s = long_spec();
    s.batch = 1;
    s.heads = s.key_heads = 1;
    s.queries = s.keys = size;
    s.mask = support::MaskKind::top_left;
    check(s, {1, 2, 3, 8});
  }
}

TEST(Distributed, NothingToDo) {
  for (const auto& [queries, keys] : {std::pair<Int, Int>{0, 40}, {40, 0}, {0, 0}}) {
    CaseSpec s = long_spec();
    s.queries = queries;
    s.keys = keys;
    const Case c = make_case(s);
    for (const int size : {1, 2, 3}) {
      const Result result = run(c, size);
      for (const double x : result.forward.out[0].data) EXPECT_EQ(x, 0);
      for (const double x : result.backward.gradients.k.data) EXPECT_EQ(x, 0);
    }
  }
}

TEST(Distributed, HeadsGiveTheBitsOfTheRing) {
  for (const char* mechanism : {"scaled_dot", "alibi", "t5", "transformer_xl", "bilinear"})
    for (const support::MaskKind mask : {support::MaskKind::none, support::MaskKind::top_left,
                                         support::MaskKind::packed_bottom_right, support::MaskKind::key_lengths}) {
      CaseSpec s = long_spec();
      s.mechanism = mechanism;
      s.mask = mask;
      s.per_head = mask != support::MaskKind::none;
      s.normalizer = support::NormalizerKind::softmax_sink;
      SCOPED_TRACE(describe(s));
      const Case c = make_case(s);
      const auto ring = run(c, 3, {Distribution::ring}).bits();
      for (const int size : {1, 2, 3, 4}) EXPECT_TRUE(run(c, size, {Distribution::heads}).bits() == ring) << size;
    }
}

// The weights of sigmoid need no other key's score: more processes than heads, biases and dense masks are no matter.
TEST(Distributed, SigmoidIsAddedUpByTheRing) {
  CaseSpec s = long_spec();
  for (const support::NormalizerKind normalizer :
       {support::NormalizerKind::sigmoid, support::NormalizerKind::sigmoid_b, support::NormalizerKind::sigmoid_one_b}) {
    s.normalizer = normalizer;
    s.mask = support::MaskKind::bottom_right;
    check(s, {1, 3, 8});
  }
  for (const rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::bf16}) {
    s.dtype = dtype;
    s.value_dims = {5, 17};
    check(s, {1, 2});
    const Case c = make_case(s);
    const auto ring = run(c, 2, {.distribution = Distribution::ring}).bits();
    EXPECT_TRUE(run(c, 3, {.distribution = Distribution::heads}).bits() == ring);
    EXPECT_TRUE(run(c, 3, {.distribution = Distribution::ring, .saved = false}).bits() == ring);
  }
  s.dtype = rapt::Dtype::f32;
  s.bias = support::BiasKind::full;
  s.mask = support::MaskKind::dense;
  check(s, {1, 3});
}

TEST(Distributed, WithoutSavedRows) {
  CaseSpec s = long_spec();
  s.mask = support::MaskKind::top_left;
  const Case c = make_case(s);
  EXPECT_TRUE(run(c, 3, {.distribution = Distribution::ring, .saved = false}).bits() ==
              run(c, 2, {.distribution = Distribution::ring}).bits());
}

TEST(Distributed, ThreadsChangeNoBit) {
  CaseSpec s = long_spec();
  s.mask = support::MaskKind::top_left;
  const Case c = make_case(s);
  const auto one = run(c, 2, {.distribution = Distribution::ring}).bits();
  for (const int threads : {2, 3, 5, 40})
    EXPECT_TRUE(run(c, 2, {.distribution = Distribution::ring, .threads = threads}).bits() == one) << threads;
}

// Cells of one head on several threads: sums of a piece of keys are added in turn, whichever thread is done first.
TEST(Distributed, ThreadsOfOneHeadChangeNoBit) {
  CaseSpec s = long_spec();
  s.mechanism = "alibi";
  s.batch = 1;
  s.heads = s.key_heads = 1;
  s.queries = s.keys = 1000;
  s.mask = support::MaskKind::top_left;
  s.normalizer = support::NormalizerKind::softmax_sink;
  const Case c = make_case(s);
  const auto one = run(c, 1, {.distribution = Distribution::ring}).bits();
  for (const int threads : {2, 3, 7})
    for (const int size : {1, 3})
      EXPECT_TRUE(run(c, size, {.distribution = Distribution::ring, .threads = threads}).bits() == one)
          << size << " processes of " << threads;
}

// A cut by the length alone: shares are everything once, and early and late pieces balance.
TEST(Distributed, SharesAreEverythingOnce) {
  for (const Int length : {0, 1, 15, 16, 17, 151, 1000, 4096, 32768, 100001})
    for (const int size : {1, 2, 3, 4, 7, 8, 64}) {
      std::vector<int> seen(static_cast<std::size_t>(length));
      for (int rank = 0; rank < size; ++rank)
        for (const Int row : rows_of(length, rank, size)) ++seen[static_cast<std::size_t>(row)];
      for (const int times : seen) ASSERT_EQ(times, 1) << length << " rows, " << size << " processes";
    }
}

void refuses(const Case& c, int size, const std::string& sentence, const Wants& wants = {}) {
  Processes processes(c, size, wants);
  processes.run();
  for (const std::string& error : processes.errors()) EXPECT_NE(error.find(sentence), std::string::npos) << error;
}

TEST(Distributed, RefusesInEveryProcess) {
  CaseSpec s = long_spec();
  refuses(make_case(s), 2, "attend: path: expected automatic or generic over several processes, got reference",
          {.change = [](rapt::AttendOptions& options) { options.path = rapt::Path::reference; }});
  s = long_spec();
  s.bias = support::BiasKind::full;
  refuses(make_case(s), 2, "distribution heads: expected neither bias", {Distribution::heads});
}

// One process alone has the mistake; all hear of it.
TEST(Distributed, OneBadProcessStopsAll) {
  const auto errors = support::run_processes(3, [](rapt::Communicator& communicator) {
    const rapt::Share share = rapt::share_of(100, communicator.rank(), 3);
    std::vector<float> numbers(1000, 1.0F), out(1000);
    const rapt::ConstView in = rapt::view(std::as_const(numbers).data(), {share.rows(), 4});
    rapt::Outputs outputs;
    outputs.out = {rapt::view(out.data(), {share.rows() + (communicator.rank() == 1 ? 1 : 0), 4})};
    rapt::attend(rapt::Inputs{in, in, {in}}, outputs, {}, communicator);
  });
  for (const std::string& error : errors) EXPECT_NE(error.find("out[0]: expected shape"), std::string::npos) << error;
  EXPECT_EQ(errors[0].find("process 1: "), 0U);
  const auto others = support::run_processes(2, [](rapt::Communicator& communicator) {
    const rapt::Share share = rapt::share_of(100, communicator.rank(), 2);
    std::vector<float> numbers(1000, 1.0F), out(1000);
    const rapt::ConstView in = rapt::view(std::as_const(numbers).data(), {share.rows(), 4});
    rapt::Outputs outputs;
    outputs.out = {rapt::view(out.data(), {share.rows(), 4})};
    rapt::AttendOptions options;
    options.softcap = communicator.rank();
    rapt::attend(rapt::Inputs{in, in, {in}}, outputs, options, communicator);
  });
  for (const std::string& error : others)
    EXPECT_NE(error.find("expected the same options, parameters and sizes in every process"), std::string::npos)
        << error;
  const auto rows = support::run_processes(2, [](rapt::Communicator& communicator) {
    std::vector<float> numbers(1000, 1.0F), out(1000);
    const rapt::ConstView in = rapt::view(std::as_const(numbers).data(), {communicator.rank() == 0 ? 40 : 60, 4});
    rapt::Outputs outputs;
    outputs.out = {rapt::view(out.data(), {communicator.rank() == 0 ? 40 : 60, 4})};
    rapt::attend(rapt::Inputs{in, in, {in}}, outputs, {}, communicator);
  });
  for (const std::string& error : rows)
    EXPECT_NE(error.find("rows, the share of this process of 100"), std::string::npos) << error;
}

TEST(Distributed, ExplainsItsChoice) {
  CaseSpec s = long_spec();
  const Case c = make_case(s);
  const std::string ring = run(c, 3, {Distribution::ring}).explanation;
  EXPECT_EQ(ring.find("ring over 3 processes, as asked for"), 0U) << ring;
  EXPECT_NE(ring.find("heads: "), std::string::npos);
  EXPECT_NE(ring.find("GB/s between processes"), std::string::npos);
  EXPECT_EQ(run(c, 1).explanation.find("ring over 1 process\n"), 0U);
}

}  // namespace
