// The C functions over processes: the numbers of the C++ ones, and refusals by status.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>

#include "distributed/thread_communicator.h"
#include "rapt/c.h"
#include "rapt/distributed.h"

namespace {

constexpr std::int64_t kHeads = 2, kRows = 90, kDim = 5;

rapt_communicator network_of(rapt::Communicator& communicator) {
  rapt_communicator c = {};
  c.struct_size = sizeof c;
  c.context = &communicator;
  c.rank = communicator.rank();
  c.size = communicator.size();
  c.start_send = [](void* context, const void* data, std::size_t bytes, std::int32_t to, std::int32_t tag) {
    return std::int32_t{static_cast<rapt::Communicator*>(context)->start_send(data, bytes, to, tag)};
  };
  c.start_receive = [](void* context, void* data, std::size_t bytes, std::int32_t from, std::int32_t tag) {
    return std::int32_t{static_cast<rapt::Communicator*>(context)->start_receive(data, bytes, from, tag)};
  };
  c.test = [](void* context, std::int32_t message) {
    return std::int32_t{static_cast<rapt::Communicator*>(context)->test(message) ? 1 : 0};
  };
  return c;
}

// The numbers of a process: each follows from its place in the whole.
std::vector<float> numbers(const rapt_share& share, int which) {
  std::vector<float> list;
  for (std::int64_t h = 0; h < kHeads; ++h)
    for (const auto& [begin, end] :
         {std::pair{share.early_begin, share.early_end}, std::pair{share.late_begin, share.late_end}})
      for (std::int64_t n = begin * kDim; n < end * kDim; ++n)
        list.push_back(std::sin(static_cast<float>((h * kRows * kDim + n) * (which + 3)) * 0.37F));
  list.push_back(0);  // a process without rows has an array too
  return list;
}

TEST(DistributedC, GivesWhatCppGives) {
  const auto errors = support::run_processes(3, [](rapt::Communicator& communicator) {
    rapt_share share;
    ASSERT_EQ(rapt_share_of(kRows, communicator.rank(), communicator.size(), &share), RAPT_OK);
    const std::int64_t rows = share.early_end - share.early_begin + share.late_end - share.late_begin;
    std::vector<float> q = numbers(share, 0), k = numbers(share, 1), v = numbers(share, 2), grad = numbers(share, 3);
    std::vector<float> out(q.size()), dq(q.size()), dk(q.size()), dv(q.size());
    const auto array = [&](std::vector<float>& list) {
      return rapt_bhsd(list.data(), RAPT_F32, 1, kHeads, rows, kDim);
    };
    rapt_communicator network = network_of(communicator);
    rapt_options options;
    rapt_options_init(&options, sizeof options);
    options.causal = RAPT_CAUSAL_TOP_LEFT;
    const rapt_array v_array = array(v), out_array = array(out), grad_array = array(grad), dv_array = array(dv);
    const rapt_inputs inputs = {sizeof inputs, array(q), array(k), &v_array, 1};
    rapt_outputs outputs;
    rapt_outputs_init(&outputs, sizeof outputs);
    outputs.out = &out_array;
    outputs.out_count = 1;
    rapt_saved* saved = rapt_saved_create();
    outputs.saved = saved;
    ASSERT_EQ(rapt_attend_distributed(&inputs, &outputs, &options, &network, RAPT_DISTRIBUTION_RING), RAPT_OK)
        << rapt_last_error();
    EXPECT_GT(network.bandwidth, 0);
    rapt_gradients gradients;
    rapt_gradients_init(&gradients, sizeof gradients);
    gradients.q = array(dq);
    gradients.k = array(dk);
    gradients.v = &dv_array;
    gradients.v_count = 1;
    ASSERT_EQ(rapt_attend_backward_distributed(&inputs, &out_array, &grad_array, saved, &gradients, &options, &network,
                                               RAPT_DISTRIBUTION_AUTOMATIC),
              RAPT_OK)
        << rapt_last_error();
    rapt_saved_free(saved);

    std::vector<float> cpp_out(q.size()), cpp_dq(q.size()), cpp_dk(q.size()), cpp_dv(q.size());
    const auto view = [&](std::vector<float>& list) { return rapt::view(list.data(), {1, kHeads, rows, kDim}); };
    rapt::AttendOptions cpp;
    cpp.mask.causal = rapt::Causal::top_left;
    rapt::Outputs cpp_outputs;
    cpp_outputs.out = {view(cpp_out)};
    const rapt::Inputs cpp_inputs{view(q), view(k), {view(v)}};
    rapt::attend(cpp_inputs, cpp_outputs, cpp, communicator);
    rapt::Gradients cpp_gradients;
    cpp_gradients.q = view(cpp_dq);
    cpp_gradients.k = view(cpp_dk);
    cpp_gradients.v = {view(cpp_dv)};
    rapt::attend_backward(cpp_inputs, {view(cpp_out)}, {view(grad)}, nullptr, cpp_gradients, cpp, communicator);
    EXPECT_EQ(out, cpp_out);
    EXPECT_EQ(dq, cpp_dq);
    EXPECT_EQ(dk, cpp_dk);
    EXPECT_EQ(dv, cpp_dv);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

// A network without tags has its own exchange(), or the library's, with the bits of one process; one of before exchange() keeps
// its tags.
TEST(DistributedC, MessagesWithoutTags) {
  static std::atomic<int> exchanges{0};
  const auto run = [](int size, int how) {
    std::vector<float> all(kHeads * kRows * kDim);
    const auto errors = support::run_processes(
        size,
        [&](rapt::Communicator& communicator) {
          rapt_share share;
          ASSERT_EQ(rapt_share_of(kRows, communicator.rank(), communicator.size(), &share), RAPT_OK);
          const std::int64_t rows = share.early_end - share.early_begin + share.late_end - share.late_begin;
          std::vector<float> q = numbers(share, 0), k = numbers(share, 1), v = numbers(share, 2), out(q.size());
          const auto array = [&](std::vector<float>& list) {
            return rapt_bhsd(list.data(), RAPT_F32, 1, kHeads, rows, kDim);
          };
          rapt_communicator network = network_of(communicator);
          network.without_tags = how < 2 ? 1 : 0;
          if (how == 1)
            network.exchange = [](void* context, const rapt_message* messages, std::size_t count, std::int32_t device,
                                  std::int32_t index, void* stream) {
              std::vector<rapt::Message> list;
              for (std::size_t n = 0; n < count; ++n)
                list.push_back({messages[n].data, messages[n].bytes, messages[n].process, messages[n].receives != 0});
              static_cast<rapt::Communicator*>(context)->exchange(
                  list, {static_cast<rapt::Device::Kind>(device), index}, stream);
              ++exchanges;
              return std::int32_t{0};
            };
          if (how == 2) network.struct_size = offsetof(rapt_communicator, exchange);
          const rapt_array v_array = array(v), out_array = array(out);
          const rapt_inputs inputs = {sizeof inputs, array(q), array(k), &v_array, 1};
          rapt_outputs outputs;
          rapt_outputs_init(&outputs, sizeof outputs);
          outputs.out = &out_array;
          outputs.out_count = 1;
          ASSERT_EQ(rapt_attend_distributed(&inputs, &outputs, nullptr, &network, RAPT_DISTRIBUTION_RING), RAPT_OK)
              << rapt_last_error();
          const bool steps = std::string(rapt_last_explanation()).starts_with("ring in steps");
          EXPECT_EQ(steps, how < 2);
          std::size_t n = 0;
          for (std::int64_t h = 0; h < kHeads; ++h)
            for (const auto& [begin, end] :
                 {std::pair{share.early_begin, share.early_end}, std::pair{share.late_begin, share.late_end}})
              for (std::int64_t at = begin * kDim; at < end * kDim; ++at)
                all[static_cast<std::size_t>(h * kRows * kDim + at)] = out[n++];
        },
        0, how == 2);
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    return all;
  };
  const std::vector<float> right = run(1, 0);
  EXPECT_EQ(run(3, 0), right);
  EXPECT_EQ(exchanges, 0);
  EXPECT_EQ(run(3, 1), right);
  EXPECT_GT(exchanges, 0);
  EXPECT_EQ(run(3, 2), run(1, 2));
}

TEST(DistributedC, RefusesByStatus) {
  rapt_share share;
  EXPECT_EQ(rapt_share_of(10, 2, 2, &share), RAPT_BAD_INPUT);
  EXPECT_STREQ(rapt_last_error(), "share_of: rank: expected 0 to 1, got 2");
  EXPECT_EQ(rapt_share_of(10, 0, 2, nullptr), RAPT_BAD_INPUT);
  support::run_processes(1, [](rapt::Communicator& communicator) {
    float number = 1, out = 0;
    const rapt_array one = rapt_bhsd(&number, RAPT_F32, 1, 1, 1, 1), out_array = rapt_bhsd(&out, RAPT_F32, 1, 1, 1, 1);
    const rapt_inputs inputs = {sizeof inputs, one, one, &one, 1};
    rapt_outputs outputs;
    rapt_outputs_init(&outputs, sizeof outputs);
    outputs.out = &out_array;
    outputs.out_count = 1;
    rapt_communicator network = network_of(communicator);
    EXPECT_EQ(rapt_attend_distributed(&inputs, &outputs, nullptr, &network, 3), RAPT_BAD_INPUT);
    EXPECT_EQ(rapt_attend_distributed(&inputs, &outputs, nullptr, nullptr, 0), RAPT_BAD_INPUT);
    network.test = nullptr;
    EXPECT_EQ(rapt_attend_distributed(&inputs, &outputs, nullptr, &network, 0), RAPT_BAD_INPUT);
    EXPECT_STREQ(rapt_last_error(), "communicator: expected three functions, got NULL");
    network = network_of(communicator);
    EXPECT_EQ(rapt_attend_distributed(&inputs, &outputs, nullptr, &network, 0), RAPT_OK) << rapt_last_error();
    EXPECT_EQ(out, 1);
  });
}

// A loss of out and of lse, and the reason for the choice.
TEST(DistributedC, GradientsOfLseAndTheExplanation) {
  const auto errors = support::run_processes(2, [](rapt::Communicator& communicator) {
    rapt_share share;
    ASSERT_EQ(rapt_share_of(kRows, communicator.rank(), communicator.size(), &share), RAPT_OK);
    const std::int64_t rows = share.early_end - share.early_begin + share.late_end - share.late_begin;
    std::vector<float> q = numbers(share, 0), out(q.size()), dq(q.size()), cpp_dq(q.size());
    const auto array = [&](std::vector<float>& list, std::int64_t dim) {
      return rapt_bhsd(list.data(), RAPT_F32, 1, kHeads, rows, dim);
    };
    const auto view = [&](std::vector<float>& list, std::int64_t dim) {
      return rapt::view(list.data(), {1, kHeads, rows, dim});
    };
    rapt_communicator network = network_of(communicator);
    const rapt_array in = array(q, kDim), out_array = array(out, kDim), grad_lse = array(q, 1);
    const rapt_inputs inputs = {sizeof inputs, in, in, &in, 1};
    rapt_outputs outputs;
    rapt_outputs_init(&outputs, sizeof outputs);
    outputs.out = &out_array;
    outputs.out_count = 1;
    ASSERT_EQ(rapt_attend_distributed(&inputs, &outputs, nullptr, &network, RAPT_DISTRIBUTION_HEADS), RAPT_OK)
        << rapt_last_error();
    EXPECT_EQ(std::string(rapt_last_explanation()).find("heads over 2 processes, as asked for"), 0U);
    rapt_gradients gradients;
    rapt_gradients_init(&gradients, sizeof gradients);
    gradients.q = array(dq, kDim);
    ASSERT_EQ(rapt_attend_backward_lse_distributed(&inputs, &out_array, &in, &grad_lse, nullptr, &gradients, nullptr,
                                                   &network, RAPT_DISTRIBUTION_AUTOMATIC),
              RAPT_OK)
        << rapt_last_error();
    const std::string explanation = rapt_last_explanation();
    EXPECT_EQ(explanation.find("ring over 2 processes\n"), 0U) << explanation;
    EXPECT_NE(explanation.find("heads: not with a bias, a dense mask or a gradient of lse"), std::string::npos);

    rapt::Gradients cpp;
    cpp.q = view(cpp_dq, kDim);
    rapt::attend_backward({view(q, kDim), view(q, kDim), {view(q, kDim)}}, {view(out, kDim)}, {view(q, kDim)}, nullptr,
                          cpp, {}, communicator, {}, view(q, 1));
    EXPECT_EQ(dq, cpp_dq);
    EXPECT_EQ(rapt_attend_backward_lse_distributed(&inputs, &out_array, &in, nullptr, nullptr, &gradients, nullptr,
                                                   &network, RAPT_DISTRIBUTION_AUTOMATIC),
              RAPT_BAD_INPUT);
    EXPECT_STREQ(rapt_last_explanation(), "");
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

// What process 0 knows of the network holds for all, who may know something else, or nothing.
TEST(DistributedC, BandwidthIsThatOfTheFirstProcess) {
  for (const bool first_knows : {true, false}) {
    const auto errors = support::run_processes(2, [&](rapt::Communicator& communicator) {
      rapt_share share;
      ASSERT_EQ(rapt_share_of(kRows, communicator.rank(), 2, &share), RAPT_OK);
      const std::int64_t rows = share.early_end - share.early_begin + share.late_end - share.late_begin;
      std::vector<float> q = numbers(share, 0), out(q.size());
      const rapt_array in = rapt_bhsd(q.data(), RAPT_F32, 1, kHeads, rows, kDim),
                       out_array = rapt_bhsd(out.data(), RAPT_F32, 1, kHeads, rows, kDim);
      const rapt_inputs inputs = {sizeof inputs, in, in, &in, 1};
      rapt_outputs outputs;
      rapt_outputs_init(&outputs, sizeof outputs);
      outputs.out = &out_array;
      outputs.out_count = 1;
      rapt_communicator network = network_of(communicator);
      if (first_knows == (communicator.rank() == 0)) network.bandwidth = 12345;
      ASSERT_EQ(rapt_attend_distributed(&inputs, &outputs, nullptr, &network, RAPT_DISTRIBUTION_AUTOMATIC), RAPT_OK)
          << rapt_last_error();
      EXPECT_EQ(network.bandwidth == 12345, first_knows);
      EXPECT_GT(network.bandwidth, 0);
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  }
}

// One process alone cannot read its arguments: the others do not wait for it.
TEST(DistributedC, OneBadProcessStopsAll) {
  for (const bool backward : {false, true}) {
    std::array<std::string, 3> texts;
    support::run_processes(3, [&](rapt::Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      rapt_share share;
      ASSERT_EQ(rapt_share_of(kRows, communicator.rank(), communicator.size(), &share), RAPT_OK);
      const std::int64_t rows = share.early_end - share.early_begin + share.late_end - share.late_begin;
      std::vector<float> q = numbers(share, 0), out(q.size());
      const rapt_array array = rapt_bhsd(q.data(), RAPT_F32, 1, kHeads, rows, kDim),
                       out_array = rapt_bhsd(out.data(), RAPT_F32, 1, kHeads, rows, kDim);
      rapt_communicator network = network_of(communicator);
      const rapt_inputs inputs = {sizeof inputs, array, array, &array, 1};
      rapt_outputs outputs;
      rapt_outputs_init(&outputs, sizeof outputs);
      outputs.out = &out_array;
      outputs.out_count = 1;
      rapt_gradients gradients;
      rapt_gradients_init(&gradients, sizeof gradients);
      const std::int32_t distribution = rank == 1 ? 3 : RAPT_DISTRIBUTION_RING;
      const int status = backward ? rapt_attend_backward_distributed(&inputs, &out_array, &array, nullptr, &gradients,
                                                                     nullptr, &network, distribution)
                                  : rapt_attend_distributed(&inputs, &outputs, nullptr, &network, distribution);
      EXPECT_EQ(status, RAPT_BAD_INPUT);
      texts[rank] = rapt_last_error();
    });
    const std::string said = std::string(backward ? "rapt_attend_backward_distributed" : "rapt_attend_distributed") +
                             ": distribution: expected 0 to 2 (see rapt/c.h), got 3";
    EXPECT_EQ(texts[1], said);
    EXPECT_EQ(texts[0], "process 1: " + said);
    EXPECT_EQ(texts[2], "process 1: " + said);
  }
}

}  // namespace
