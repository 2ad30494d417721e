// Memory stays linear in the length of the sequence: measured as the pages that a call touches.

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/checks.h"
#include "support/sanitized.h"

namespace {

using support::Int;

// Kilobytes of one line of /proc/self/status, or −1.
long status_line(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == name + ":") {
      long value = 0;
      status >> value;
      return value;
    }
  return -1;
}

// Resets the peak to what is in use now.
bool reset_peak() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;
  return clear.good();
}

// One long sequence, forward with statistics, and backward.
void check_linear(const std::string& mechanism, oracle::Normalizer normalizer) {
  if (support::kSanitized) GTEST_SKIP() << "sanitizers keep freed memory";
  const Int length = 4096, dim = 32;
  support::CaseSpec s;
  s.mechanism = mechanism;
  s.dtype = rapt::Dtype::f32;
  s.heads = 1;
  s.queries = s.keys = length;
  s.key_dim = dim;
  s.value_dims = {dim};
  support::Case c = make_case(s);
  c.problem.normalizer = normalizer;
  support::Call call(c);
  const Int n = call.described().spec.queries;
  std::vector<float> out(static_cast<std::size_t>(n * dim)), lse(static_cast<std::size_t>(n)), entropy(lse),
      position(lse);
  std::vector<float> dq(out), dk(out), dv(out);
  rapt::Saved saved;
  rapt::Outputs outputs;
  outputs.out = {rapt::view(out.data(), {1, 1, n, dim})};
  outputs.lse = rapt::view(lse.data(), {1, 1, n, 1});
  outputs.statistics.entropy = rapt::view(entropy.data(), {1, 1, n, 1});
  outputs.statistics.position = rapt::view(position.data(), {1, 1, n, 1});
  outputs.saved = &saved;
  rapt::Gradients gradients;
  gradients.q = rapt::view(dq.data(), {1, 1, n, dim});
  gradients.k = rapt::view(dk.data(), {1, 1, n, dim});
  gradients.v = {rapt::view(dv.data(), {1, 1, n, dim})};
  std::vector<support::Buffer> parameter_gradients;
  for (const rapt::NamedView& p : call.options.score.parameters)
    parameter_gradients.emplace_back(rapt::Dtype::f32, p.value.shape);
  for (std::size_t p = 0; p < parameter_gradients.size(); ++p)
    gradients.parameters.push_back({call.options.score.parameters[p].name, parameter_gradients[p].view()});
  call.options.threads = 2;

  rapt::release_workspace();
  if (!reset_peak()) GTEST_SKIP() << "the peak of memory cannot be measured here";
  const long before = status_line("VmRSS");
  rapt::attend(call.inputs, outputs, call.options);
  rapt::attend_backward(call.inputs, {outputs.out[0]}, {call.grad_out[0]}, &saved, gradients, call.options);
  const long used_kb = status_line("VmHWM") - before;
  ASSERT_GE(before, 0);
  // A matrix of scores takes 64 MB. Thirty rows of all inputs and a few MB of workspace for each thread do not.
  const long bound_kb = static_cast<long>(30 * n * dim * 4 / 1024) + 2 * 4096;
  EXPECT_LT(used_kb, bound_kb);
  EXPECT_LT(bound_kb, n * n * 4 / 1024 / 2);
}

class MemorySlow : public testing::TestWithParam<std::string> {};

TEST_P(MemorySlow, ForwardAndBackwardStayLinear) { check_linear(GetParam(), oracle::Normalizer::softmax); }

std::string mechanism_of(const testing::TestParamInfo<std::string>& mechanism) { return mechanism.param; }

INSTANTIATE_TEST_SUITE_P(Registry, MemorySlow, testing::ValuesIn(support::registered_names()), mechanism_of);

TEST(MemoryOfNormalizersSlow, ForwardAndBackwardStayLinear) {
  for (const oracle::Normalizer normalizer : {oracle::Normalizer::argmax, oracle::Normalizer::sparsemax,
                                              oracle::Normalizer::entmax15, oracle::Normalizer::sigmoid})
    for (const char* mechanism : {"scaled_dot", "shaw", "additive"}) {
      SCOPED_TRACE(testing::Message() << mechanism << ", normalizer " << static_cast<int>(normalizer));
      check_linear(mechanism, normalizer);
    }
}

// What a backward pass under a window takes, in kilobytes, with a bias of one number for each key or without.
long windowed_kb(Int length, bool bias) {
  const Int dim = 4;
  std::vector<float> x(static_cast<std::size_t>(length * dim), 0.25F), out = x, dq = x, dk = x, dv = x;
  std::vector<float> numbers(static_cast<std::size_t>(length), 0.5F), gradient = numbers;
  const auto view = [&](std::vector<float>& of) { return rapt::view(of.data(), {1, 1, length, dim}); };
  rapt::AttendOptions options;
  options.threads = 2;
  options.mask.window = {64, 63};
  rapt::Inputs inputs{view(x), view(x), {view(x)}};
  rapt::Gradients gradients;
  gradients.q = view(dq);
  gradients.k = view(dk);
  gradients.v = {view(dv)};
  if (bias) {
    options.bias = rapt::view(numbers.data(), {1, 1, 1, length});
    gradients.bias = rapt::view(gradient.data(), {1, 1, 1, length});
  }
  rapt::Saved saved;
  rapt::release_workspace();
  if (!reset_peak()) return -1;
  const long before = status_line("VmRSS");
  rapt::attend(inputs, {.out = {view(out)}, .saved = &saved}, options);
  rapt::attend_backward(inputs, {view(out)}, {view(x)}, &saved, gradients, options);
  return status_line("VmHWM") - before;
}

// One number for each block of queries and key would be 4 MB more here, and 64 MB more at a million positions.
TEST(MemoryUnderAWindow, ABiasOfKeysStaysLinear) {
  if (support::kSanitized) GTEST_SKIP() << "sanitizers keep freed memory";
  const Int length = 262144;
  windowed_kb(length, true);
  const long without = windowed_kb(length, false), with = windowed_kb(length, true);
  if (without < 0) GTEST_SKIP() << "the peak of memory cannot be measured here";
  EXPECT_LE(with, without + 2 * 1024) << "without a bias " << without;
}

// Workspace is kept for the next call, and returned when asked.
TEST(MemoryKeptSlow, WorkSpaceCanBeGivenBack) {
  support::CaseSpec s;
  s.mechanism = "cosine";  // its rows are mapped first
  s.dtype = rapt::Dtype::f32;
  s.heads = 4;
  s.queries = s.keys = 2048;
  s.key_dim = 64;
  s.value_dims = {8};
  support::Call call(make_case(s));
  call.options.threads = 2;
  const support::ForwardResult first = call.forward();
  const long kept = status_line("VmRSS");
  rapt::release_workspace();
  const long left = status_line("VmRSS");
  ASSERT_GE(left, 0);
  EXPECT_LT(left, kept - (2L << 10));
  EXPECT_TRUE(call.forward().bits == first.bits);
}

// The measurement itself: a block of 64 MB must show.
TEST(MemoryPeakSlow, TheMeasurementSeesAMatrix) {
  if (support::kSanitized || !reset_peak()) GTEST_SKIP() << "the peak of memory cannot be measured here";
  const long before = status_line("VmRSS");
  {
    std::vector<char> block(64 << 20, 1);
    ASSERT_EQ(block[12345], 1);
  }
  EXPECT_GT(status_line("VmHWM") - before, 60 << 10);
}

}  // namespace
