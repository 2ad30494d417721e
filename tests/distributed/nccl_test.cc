// One process over NCCL has the bits of one without. Several need a device each.

#include <gtest/gtest.h>

#include "distributed/processes.h"
#include "rapt/error.h"
#include "support/device.h"
#ifdef RAPT_HAS_NCCL
#include "rapt/nccl.h"
#endif

namespace {

#ifdef RAPT_HAS_NCCL

using support::CaseSpec;
using support::distributed::long_spec;
using support::distributed::Processes;
using support::distributed::Wants;

class DistributedNccl : public testing::Test {
 protected:
  void SetUp() override {
    if (support::on_cpu()) GTEST_SKIP() << "skipped: RAPT_TEST_DEVICE names no CUDA device";
    try {
      id_ = rapt::make_nccl_id();
    } catch (const rapt::Error& error) {
      GTEST_SKIP() << "skipped: " << error.what();
    }
  }

  rapt_nccl_id id_{};
};

TEST_F(DistributedNccl, OneProcessHasTheSameBits) {
  const auto alone = rapt::nccl_communicator(id_, 0, 1, support::test_device());
  EXPECT_FALSE(alone->has_tags());
  for (const rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::bf16})
    for (const char* mechanism : {"scaled_dot", "alibi", "additive"}) {
      CaseSpec s = long_spec();
      s.mechanism = mechanism;
      s.dtype = dtype;
      s.mask = support::MaskKind::top_left;
      Wants wants;
      wants.device = support::test_device();
      const support::Case c = make_case(s);
      const auto right = run(c, 3, wants).bits();
      EXPECT_TRUE(Processes(c, 1, wants).run_over(*alone).bits() == right) << mechanism;
    }
}

// Messages to itself go through NCCL as those to others do.
TEST_F(DistributedNccl, SendsToItself) {
  const auto alone = rapt::nccl_communicator(id_, 0, 1, support::test_device());
  std::vector<int> sent(100000), received(sent.size());
  for (std::size_t n = 0; n < sent.size(); ++n) sent[n] = static_cast<int>(3 * n);
  const std::size_t bytes = sent.size() * sizeof sent[0];
  const int first = alone->start_receive(received.data(), bytes, 0, 7),
            second = alone->start_send(sent.data(), bytes, 0, 7);
  alone->wait(first);
  alone->wait(second);
  EXPECT_EQ(received, sent);
  rapt::DeviceMemory from(support::test_device(), bytes), to(support::test_device(), bytes);
  from.upload(sent.data(), bytes);
  const std::array messages{rapt::Message{to.data(), bytes, 0, true}, rapt::Message{from.data(), bytes, 0, false}};
  alone->exchange(messages, support::test_device(), nullptr);
  rapt::synchronize(support::test_device());
  std::fill(received.begin(), received.end(), 0);
  to.download(received.data(), bytes);
  EXPECT_EQ(received, sent);
}

TEST_F(DistributedNccl, RefusesTwoProcessesOnOneDevice) {
  const auto errors = support::run_processes(
      2, [](rapt::Communicator& communicator) { rapt::nccl_communicator(communicator, support::test_device()); });
  for (const std::string& error : errors)
    EXPECT_EQ(error.find("nccl_communicator: device: expected one for each process, got the same in processes 0 and 1"),
              0U)
        << error;
}

TEST_F(DistributedNccl, BesideAnotherCommunicator) {
  CaseSpec s = long_spec();
  const support::Case c = make_case(s);
  Wants wants;
  wants.device = support::test_device();
  const auto right = run(c, 2, wants).bits();
  const auto errors = support::run_processes(1, [&](rapt::Communicator& communicator) {
    const auto beside = rapt::nccl_communicator(communicator, support::test_device());
    EXPECT_TRUE(beside->has_tags());
    EXPECT_TRUE(Processes(c, 1, wants).run_over(*beside).bits() == right);
  });
  EXPECT_EQ(errors[0], "");
}

#else

TEST(DistributedNccl, IsNotBuilt) { GTEST_SKIP() << "skipped: this build has no NCCL"; }

#endif

}  // namespace
