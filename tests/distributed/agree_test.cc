// What processes must agree on before they wait for each other: arrays that are empty in some of them, options, and mistakes.

#include <gtest/gtest.h>

#include "distributed/processes.h"
#include "rapt/registry.h"

namespace {

using rapt::Distribution;
using support::Case;
using support::CaseSpec;
using support::Int;
using support::distributed::Empty;
using support::distributed::long_spec;
using support::distributed::run;

// Sequences so short that some processes have no rows of one of them, with every array that may be missing.
TEST(DistributedAgree, EmptyArraysMayBeNull) {
  for (const auto& [queries, keys] : {std::pair<Int, Int>{300, 20}, {20, 300}, {20, 20}, {1, 60}})
    for (const support::BiasKind bias : {support::BiasKind::none, support::BiasKind::full})
      for (const support::MaskKind mask : {support::MaskKind::none, support::MaskKind::dense}) {
        CaseSpec s = long_spec();
        s.queries = queries;
        s.keys = keys;
        s.value_dims = {5, 9};
        s.bias = bias;
        s.mask = mask;
        s.grad_lse = true;
        SCOPED_TRACE(describe(s));
        const Case c = make_case(s);
        const auto first = run(c, 1, {.distribution = Distribution::ring}).bits();
        for (const Empty empty : {Empty::addressed, Empty::null, Empty::absent})
          for (const int size : {2, 3})
            EXPECT_TRUE(run(c, size, {.distribution = Distribution::ring, .empty = empty}).bits() == first)
                << size << " processes, empty arrays: " << static_cast<int>(empty);
      }
}

TEST(DistributedAgree, EmptyArraysMayBeNullWhereHeadsAreCut) {
  for (const auto& [queries, keys] : {std::pair<Int, Int>{300, 20}, {20, 300}})
    for (const support::NormalizerKind normalizer :
         {support::NormalizerKind::softmax, support::NormalizerKind::sparsemax}) {
      CaseSpec s = long_spec();
      s.queries = queries;
      s.keys = keys;
      s.normalizer = normalizer;
      SCOPED_TRACE(describe(s));
      const Case c = make_case(s);
      const auto first = run(c, 1, {.distribution = Distribution::heads}).bits();
      for (const Empty empty : {Empty::null, Empty::absent})
        EXPECT_TRUE(run(c, 3, {.distribution = Distribution::heads, .empty = empty}).bits() == first);
    }
}

// One process's call, whose options and wishes a test changes by rank.
struct OneCall {
  rapt::Communicator& communicator;
  rapt::Share share;
  std::vector<float> numbers, out, lse, grad_q, grad_k, grad_v;
  rapt::Inputs inputs;
  rapt::Saved saved;
  rapt::Outputs outputs;
  rapt::Gradients gradients;
  rapt::AttendOptions options;

  explicit OneCall(rapt::Communicator& processes)
      : communicator(processes), share(rapt::share_of(100, processes.rank(), processes.size())) {
    for (std::vector<float>* list : {&numbers, &out, &lse, &grad_q, &grad_k, &grad_v})
      list->assign(static_cast<std::size_t>(share.rows() * 4 + 1), 0.5F);
    const rapt::ConstView in = rapt::view(std::as_const(numbers).data(), {share.rows(), 4});
    inputs = {in, in, {in}};
    const auto of = [&](std::vector<float>& list) { return rapt::view(list.data(), {share.rows(), 4}); };
    outputs.out = {of(out)};
    outputs.saved = &saved;
    gradients.q = of(grad_q);
    gradients.k = of(grad_k);
    gradients.v = {of(grad_v)};
  }

  void forward(Distribution distribution = Distribution::ring) {
    rapt::attend(inputs, outputs, options, communicator, {distribution, nullptr});
  }
  void backward(Distribution distribution = Distribution::ring, bool with_lse = false) {
    const rapt::ConstView out_view = outputs.out[0];
    rapt::attend_backward(inputs, {out_view}, {inputs.q}, &saved, gradients, options, communicator,
                          {distribution, nullptr},
                          with_lse ? rapt::view(std::as_const(lse).data(), {share.rows(), 1}) : rapt::ConstView{});
  }
};

void all_throw(const std::function<void(OneCall&, int rank)>& body, const std::string& sentence) {
  const auto errors = support::run_processes(2, [&](rapt::Communicator& communicator) {
    OneCall call(communicator);
    body(call, communicator.rank());
  });
  for (const std::string& error : errors) EXPECT_NE(error.find(sentence), std::string::npos) << error;
}

TEST(DistributedAgree, GradientsAreWantedInAllOrInNone) {
  const auto without = [](auto member, int missing) {
    return [member, missing](OneCall& call, int rank) {
      call.forward();
      if (rank == missing) call.gradients.*member = {};
      call.backward();
    };
  };
  all_throw(without(&rapt::Gradients::q, 0),
            "attend_backward: gradient of q: expected in every process or in none, got one in process 1 and none in "
            "process 0");
  all_throw(without(&rapt::Gradients::k, 1),
            "attend_backward: gradient of k: expected in every process or in none, got one in process 0 and none in "
            "process 1");
  all_throw(without(&rapt::Gradients::v, 1), "attend_backward: gradient of v[0]: expected in every process or in none");
  for (const Distribution distribution : {Distribution::ring, Distribution::automatic})
    all_throw(
        [&](OneCall& call, int rank) {
          call.forward();
          call.backward(distribution, rank == 0);
        },
        "attend_backward: grad_lse: expected in every process or in none, got one in process 0 and none in process 1");
}

TEST(DistributedAgree, ASizeBelowZeroInOneProcess) {
  all_throw(
      [](OneCall& call, int rank) {
        call.forward();
        if (rank == 1) call.inputs.q.shape[2] = -4;
        call.backward();
      },
      "-4");
}

TEST(DistributedAgree, OptionsAreTheSameInAll) {
  const std::string sentence =
      "expected the same options, parameters and sizes in every process, got others in process 1";
  all_throw([](OneCall& call, int rank) { call.forward(rank == 0 ? Distribution::ring : Distribution::heads); },
            "attend: " + sentence);
  all_throw(
      [](OneCall& call, int rank) {
        call.forward();
        call.backward(rank == 0 ? Distribution::ring : Distribution::automatic);
      },
      "attend_backward: " + sentence);
  all_throw(
      [](OneCall& call, int rank) {
        call.forward();
        if (rank == 0) call.forward();
        else call.backward();
      },
      sentence);
}

// Each process would compute with its own, and gradients would be of none.
TEST(DistributedAgree, ParametersHaveTheSameNumbersInAll) {
  const std::string sentence = "attend: expected the same options, parameters and sizes in every process";
  for (const std::size_t place : {std::size_t{0}, std::size_t{4}, std::size_t{10}})
    all_throw(
        [&](OneCall& call, int rank) {
          std::vector<float> matrix(16, 0.25F);
          if (rank == 1) matrix[place] = 0.5F;
          call.options.score.mechanism = &rapt::mechanism("bilinear");
          call.options.score.parameters = {{"W", rapt::view(std::as_const(matrix).data(), {4, 4})}};
          call.forward();
        },
        sentence);
  // One number for all in one process, the same numbers as an array in the other.
  const auto errors = support::run_processes(2, [](rapt::Communicator& communicator) {
    OneCall call(communicator);
    std::vector<float> matrix(16, 0.25F);
    rapt::ConstView view = rapt::view(std::as_const(matrix).data(), {4, 4});
    if (communicator.rank() == 1) {
      matrix.resize(1);
      view.data = matrix.data();
      view.strides = {0, 0, 0, 0};
    }
    call.options.score.mechanism = &rapt::mechanism("bilinear");
    call.options.score.parameters = {{"W", view}};
    call.forward();
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  all_throw(
      [&](OneCall& call, int rank) {
        std::vector<float> row(100, 0.25F);
        row[7] += static_cast<float>(rank);
        call.options.bias = rapt::view(std::as_const(row).data(), {1, 100});
        call.forward();
      },
      sentence);
}

TEST(DistributedAgree, DelaysChangeNoBit) {
  for (const Distribution distribution : {Distribution::ring, Distribution::heads}) {
    CaseSpec s = long_spec();
    s.mask = support::MaskKind::top_left;
    const Case c = make_case(s);
    const auto first = run(c, 1, {.distribution = distribution}).bits();
    for (const unsigned seed : {1U, 2U, 3U})
      EXPECT_TRUE(run(c, 4, {.distribution = distribution, .delays = seed}).bits() == first) << "delays " << seed;
  }
}

}  // namespace
