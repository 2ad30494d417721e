// The ring in steps, for memory of a device and messages without tags: the oracle's numbers, and the same bits for any number of
// processes. RAPT_TEST_DEVICE=cuda: processes are threads that share the device, and messages go through ordinary memory.

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "distributed/processes.h"
#include "distributed/schedule.h"
#include "rapt/error.h"
#include "support/device.h"

namespace {

using rapt::Distribution;
using rapt::distributed::Cut;
using rapt::distributed::Schedule;
using support::CaseSpec;
using support::Int;
using support::distributed::check;
using support::distributed::long_spec;
using support::distributed::Processes;
using support::distributed::run;
using support::distributed::Wants;

Wants in_steps() {
  Wants wants;
  wants.tags = false;
  wants.device = support::test_device();
  return wants;
}

void check_steps(CaseSpec s, std::initializer_list<int> sizes = {1, 2, 3, 4, 8}) {
  if (!support::on_cpu() && s.dtype == rapt::Dtype::f64) s.dtype = rapt::Dtype::f32;
  check(s, sizes, in_steps());
}

TEST(DistributedSteps, SchedulesMatch) {
  for (const Int length : {Int{0}, Int{1}, Int{16}, Int{33}, Int{151}, Int{1000}})
    for (const int size : {1, 2, 3, 4, 5, 8, 13}) {
      SCOPED_TRACE(testing::Message() << length << " keys, " << size << " processes");
      const Cut cut(length);
      const Schedule first(cut, 0, size);
      std::vector<std::vector<Int>> met(static_cast<std::size_t>(size));
      std::vector<Int> returned;
      std::vector<std::map<Int, bool>> here(static_cast<std::size_t>(size));
      for (Int step = first.first_step(); step <= first.last_step(); ++step)
        for (const bool of_keys : {true, false}) {
          // What is sent, by sender and receiver; then every receipt must find its message.
          std::map<std::pair<int, int>, std::deque<Int>> sent;
          for (int rank = 0; rank < size; ++rank) {
            const Schedule schedule(cut, rank, size);
            const Int unit = schedule.unit_at(step);
            if (of_keys && unit >= 0) {
              met[static_cast<std::size_t>(rank)].push_back(unit);
              EXPECT_TRUE(schedule.owns(unit) || here[static_cast<std::size_t>(rank)][unit]);
              if (rank == size - 1 && schedule.owns(unit)) returned.push_back(unit);
            }
            for (const auto& transfer : of_keys ? schedule.keys(step) : schedule.sums(step))
              if (!transfer.receives) {
                EXPECT_NE(transfer.process, rank);
                sent[{rank, transfer.process}].push_back(transfer.unit);
              }
          }
          for (int rank = 0; rank < size; ++rank) {
            const Schedule schedule(cut, rank, size);
            for (const auto& transfer : of_keys ? schedule.keys(step) : schedule.sums(step)) {
              if (!transfer.receives) continue;
              auto& queue = sent[{transfer.process, rank}];
              ASSERT_FALSE(queue.empty());
              EXPECT_EQ(queue.front(), transfer.unit);
              queue.pop_front();
              if (of_keys) here[static_cast<std::size_t>(rank)][transfer.unit] = true;
              else if (transfer.process == size - 1) returned.push_back(transfer.unit);
            }
          }
          for (const auto& [pair, queue] : sent) EXPECT_TRUE(queue.empty());
        }
      std::vector<Int> all;
      for (Int unit = 0; unit < cut.units(); ++unit) all.push_back(unit);
      for (const auto& list : met) EXPECT_EQ(list, all);
      EXPECT_EQ(returned, all);
    }
}

class DistributedStepsMechanisms : public testing::TestWithParam<std::string> {};

TEST_P(DistributedStepsMechanisms, AnyNumberOfProcesses) {
  for (const rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::f64}) {
    if (!support::on_cpu() && dtype == rapt::Dtype::f64) continue;
    CaseSpec s = long_spec();
    s.mechanism = GetParam();
    s.dtype = dtype;
    s.mask = support::MaskKind::top_left;
    check_steps(s);
  }
  CaseSpec s = long_spec();
  s.mechanism = GetParam();
  s.queries = 67;
  s.positions = support::PositionKind::last;
  check_steps(s, {1, 3, 4});
}

INSTANTIATE_TEST_SUITE_P(All, DistributedStepsMechanisms, testing::ValuesIn(support::registered_names()),
                         [](const auto& test) { return test.param; });

TEST(DistributedSteps, EveryMask) {
  for (const char* mechanism : {"scaled_dot", "alibi"})
    for (const support::MaskKind mask : support::all_masks()) {
      CaseSpec s = long_spec();
      s.mechanism = mechanism;
      s.mask = mask;
      check_steps(s, {1, 2, 4, 8});
    }
}

TEST(DistributedSteps, EveryBias) {
  for (const support::BiasKind bias : support::all_biases()) {
    CaseSpec s = long_spec();
    s.bias = bias;
    s.mask = support::MaskKind::bottom_right;
    check_steps(s, {1, 3, 4});
    s.queries = 1;
    check_steps(s, {1, 2, 3});
  }
}

TEST(DistributedSteps, SinkSoftcapRotarySeveralValuesAndGradientOfLse) {
  CaseSpec s = long_spec();
  s.normalizer = support::NormalizerKind::softmax_sink;
  s.softcap = 3;
  s.rotary = support::RotaryKind::halves;
  s.value_dims = {5, 17};
  s.mask = support::MaskKind::window;
  check_steps(s);
  s.grad_lse = true;
  check_steps(s, {1, 2, 3});
}

TEST(DistributedSteps, Sigmoid) {
  using enum support::NormalizerKind;
  for (const support::NormalizerKind normalizer : {sigmoid, sigmoid_b, sigmoid_one_b}) {
    CaseSpec s = long_spec();
    s.normalizer = normalizer;
    s.mask = support::MaskKind::top_left;
    check_steps(s, {1, 2, 3, 8});
  }
}

TEST(DistributedSteps, ShortStorageTypes) {
  for (const rapt::Dtype dtype : {rapt::Dtype::bf16, rapt::Dtype::f16}) {
    CaseSpec s = long_spec();
    s.dtype = dtype;
    s.mask = support::MaskKind::top_left;
    check_steps(s, {1, 2, 4});
    // Rows that tensor cores take.
    s.layout = support::Layout::aligned;
    s.key_heads = 4;
    s.key_dim = 64;
    s.value_dims = {64};
    check_steps(s, {1, 2, 4});
    s.mask = support::MaskKind::none;
    s.normalizer = support::NormalizerKind::softmax_sink;
    check_steps(s, {1, 3});
  }
}

TEST(DistributedSteps, OddSizes) {
  for (const Int size : {Int{1}, Int{3}, Int{16}, Int{17}, Int{33}, Int{257}}) {
    CaseSpec s = long_spec();
    s.batch = 1;
    s.queries = s.keys = size;
    s.mask = support::MaskKind::top_left;
    check_steps(s, {1, 2, 3, 8});
  }
}

TEST(DistributedSteps, WithoutTheRowsOfTheForwardPass) {
  for (const rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::bf16}) {
    CaseSpec s = long_spec();
    s.dtype = dtype;
    s.mask = support::MaskKind::top_left;
    const support::Case c = make_case(s);
    const auto right = run(c, 1, in_steps()).bits();
    Wants wants = in_steps();
    wants.saved = false;
    for (const int size : {1, 3}) EXPECT_TRUE(run(c, size, wants).bits() == right);
  }
}

TEST(DistributedSteps, ArraysWithoutElements) {
  using enum support::distributed::Empty;
  for (const auto empty : {addressed, null, absent}) {
    CaseSpec s = long_spec();
    s.queries = 5;
    s.keys = 3;
    s.bias = support::BiasKind::full;
    const support::Case c = make_case(s);
    Wants wants = in_steps();
    const auto right = run(c, 1, wants).bits();
    wants.empty = empty;
    EXPECT_TRUE(run(c, 8, wants).bits() == right);
  }
}

// Tags or none, the steps of a call are the same: those of the ring on a cpu, too, as closely as two orders of summation.
TEST(DistributedSteps, LateMessages) {
  CaseSpec s = long_spec();
  s.mask = support::MaskKind::top_left;
  const support::Case c = make_case(s);
  const auto right = run(c, 1, in_steps()).bits();
  for (const unsigned seed : {1U, 2U}) {
    Wants wants = in_steps();
    wants.delays = seed;
    EXPECT_TRUE(run(c, 4, wants).bits() == right);
  }
}

TEST(DistributedSteps, LateMessagesOfEveryKind) {
  std::vector<CaseSpec> specs(3, long_spec());
  specs[0].normalizer = support::NormalizerKind::softmax_sink;
  specs[0].bias = support::BiasKind::per_key;
  specs[0].value_dims = {5, 17};
  specs[0].grad_lse = true;
  specs[1].mechanism = "alibi";
  specs[1].normalizer = support::NormalizerKind::sigmoid_b;
  specs[1].mask = support::MaskKind::packed_top_left;
  specs[2].queries = 40;
  specs[2].keys = 300;
  specs[2].dtype = rapt::Dtype::f16;
  unsigned seed = 10;
  for (const CaseSpec& s : specs) {
    SCOPED_TRACE(describe(s));
    const support::Case c = make_case(s);
    const auto right = run(c, 1, in_steps()).bits();
    for (const int size : {2, 5, 8}) {
      Wants wants = in_steps();
      wants.delays = ++seed;
      EXPECT_TRUE(run(c, size, wants).bits() == right) << size << " processes, delays " << seed;
    }
  }
}

// Passes messages on, until one cannot be sent.
class Failing final : public rapt::Communicator {
 public:
  Failing(rapt::Communicator& to, int exchanges) : to_(to), left_(exchanges) {}

  int rank() const override { return to_.rank(); }
  int size() const override { return to_.size(); }
  bool has_tags() const override { return to_.has_tags(); }
  int start_send(const void* data, std::size_t bytes, int to, int tag) override {
    return to_.start_send(data, bytes, to, tag);
  }
  int start_receive(void* data, std::size_t bytes, int from, int tag) override {
    return to_.start_receive(data, bytes, from, tag);
  }
  bool test(int message) override { return to_.test(message); }
  void exchange(std::span<const rapt::Message> messages, const rapt::Device& device, void* stream) override {
    if (left_-- == 0) throw std::runtime_error("the link is gone");
    to_.exchange(messages, device, stream);
  }

 private:
  rapt::Communicator& to_;
  int left_;
};

// No process waits for ever, and none reads or writes what another has freed.
TEST(DistributedSteps, OneProcessThatFailsEndsAll) {
  for (const int exchanges : {0, 1, 4}) {
    const auto errors = support::run_processes(
        3,
        [&](rapt::Communicator& communicator) {
          Failing failing(communicator, communicator.rank() == 1 ? exchanges : -1);
          const rapt::Share share = rapt::share_of(300, communicator.rank(), 3);
          std::vector<float> numbers(static_cast<std::size_t>(share.rows() * 64 + 1), 0.5F), out(numbers.size());
          const rapt::ConstView in = rapt::view(std::as_const(numbers).data(), {share.rows(), 64});
          rapt::Outputs outputs;
          outputs.out = {rapt::view(out.data(), {share.rows(), 64})};
          rapt::attend(rapt::Inputs{in, in, {in}}, outputs, {}, failing);
        },
        3, false);
    EXPECT_EQ(errors[1], "the link is gone") << exchanges;
    for (const int other : {0, 2}) EXPECT_NE(errors[static_cast<std::size_t>(other)], "") << exchanges;
  }
}

TEST(DistributedSteps, RefusesWhatHasNoStepsInEveryProcess) {
  const char* where = support::on_cpu() ? "over messages without tags" : "for arrays on a device";
  CaseSpec s = long_spec();
  Wants wants = in_steps();
  wants.distribution = Distribution::heads;
  Processes heads(make_case(s), 3, wants);
  heads.run();
  for (const std::string& error : heads.errors())
    EXPECT_EQ(error, std::string("attend: distribution: expected ring ") + where + ", got heads");
  s.normalizer = support::NormalizerKind::sparsemax;
  Processes sparse(make_case(s), 2, in_steps());
  sparse.run();
  for (const std::string& error : sparse.errors())
    EXPECT_EQ(error, std::string("attend: normalizer: expected softmax or sigmoid ") + where +
                         " over several processes, got sparsemax");
}

}  // namespace
