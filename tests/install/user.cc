// A user's program against the installed library: calls by name and with a formula of its own, and one mistake.
#include <rapt/rapt.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

int failures = 0;

void expect_near(const char* what, double got, double expected) {
  if (std::abs(got - expected) <= 1e-5) return;
  std::fprintf(stderr, "%s: got %g, expected %g\n", what, got, expected);
  ++failures;
}

}  // namespace

int main() {
  // One query, two keys whose scores are 1 and 0: the weights are e/(e+1) and 1/(e+1).
  const std::vector<float> q{1, 0};
  const std::vector<float> k{1, 0, 0, 1};
  const std::vector<float> v{10, 20};
  std::vector<float> out(1);
  const double first = std::exp(1.0) / (std::exp(1.0) + 1);

  rapt::AttendOptions options;
  options.score.mechanism = &rapt::builtin::dot();
  rapt::attend(rapt::view(q.data(), {1, 2}), rapt::view(k.data(), {2, 2}), rapt::view(v.data(), {2, 1}),
               rapt::view(out.data(), {1, 1}), options);
  expect_near("dot", out[0], 10 * first + 20 * (1 - first));

  // Members that are left out of an initialiser are no reason for a warning; sizes may come from a vector.
  const float slope = 1;
  const std::vector<std::int64_t> sizes{2, 2};
  options = {.score = {.mechanism = &rapt::builtin::alibi(), .parameters = {{"m", rapt::view(&slope, {1})}}}};
  options.scale = 1;
  rapt::attend(
      rapt::Inputs{
          .q = rapt::view(q.data(), {1, 2}), .k = rapt::view(k.data(), sizes), .v = {rapt::view(v.data(), {2, 1})}},
      rapt::Outputs{.out = {rapt::view(out.data(), {1, 1})}}, options);
  const double shifted = std::exp(2.0) / (std::exp(2.0) + 1);
  expect_near("alibi", out[0], 10 * shifted + 20 * (1 - shifted));

  options = {};
  options.score = rapt::custom([](auto raw, const auto& at) { return raw - 1.0f * at.offset(); });
  rapt::attend(rapt::view(q.data(), {1, 2}), rapt::view(k.data(), {2, 2}), rapt::view(v.data(), {2, 1}),
               rapt::view(out.data(), {1, 1}), options);
  expect_near("custom", out[0], 10 * shifted + 20 * (1 - shifted));

  try {
    rapt::mechanism("no_such_mechanism");
    std::fprintf(stderr, "mechanism(\"no_such_mechanism\") did not throw\n");
    ++failures;
  } catch (const rapt::Error& error) {
    std::printf("as expected: %s\n", error.what());
  }
  return failures == 0 ? 0 : 1;
}
