// Problems large enough that heads are prepared in several waves, and that tables' gradients are summed by offset.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "rapt/attend.h"
#include "rapt/registry.h"

namespace {

std::vector<float> random_numbers(std::int64_t count, unsigned seed, float size) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& x : numbers) x = normal(generator);
  return numbers;
}

// Self-attention with one parameter that may have heads, and all its gradients.
struct Results {
  std::int64_t heads, sequence, dim;
  std::vector<float> out, dq, dk, dv;
  std::vector<std::vector<float>> dp;
};

struct Named {
  std::string name;
  std::vector<float> numbers;
  std::int64_t heads, rows, cols;
};

Results run(const char* mechanism, std::int64_t heads, std::int64_t sequence, std::int64_t dim, const float* q,
            const float* k, const float* v, const float* grad, const std::vector<Named>& parameters, int threads,
            rapt::Path path) {
  Results r{heads, sequence, dim, {}, {}, {}, {}, {}};
  const auto size = static_cast<std::size_t>(heads * sequence * dim);
  for (auto* array : {&r.out, &r.dq, &r.dk, &r.dv}) array->assign(size, std::nanf(""));
  const auto shaped = [&](auto* data) { return rapt::view(data, {1, heads, sequence, dim}); };
  rapt::AttendOptions options;
  options.score.mechanism = &rapt::mechanism(mechanism);
  options.threads = threads;
  options.path = path;
  rapt::Gradients gradients;
  for (const Named& p : parameters) r.dp.emplace_back(p.numbers.size(), std::nanf(""));
  for (std::size_t n = 0; n < parameters.size(); ++n) {
    const Named& p = parameters[n];
    options.score.parameters.push_back({p.name, rapt::view(p.numbers.data(), {p.heads, p.rows, p.cols})});
    gradients.parameters.push_back({p.name, rapt::view(r.dp[n].data(), {p.heads, p.rows, p.cols})});
  }
  gradients.q = shaped(r.dq.data());
  gradients.k = shaped(r.dk.data());
  gradients.v = {shaped(r.dv.data())};
  rapt::Saved saved;
  rapt::Outputs outputs;
  outputs.out = {shaped(r.out.data())};
  outputs.saved = &saved;
  const rapt::Inputs inputs{shaped(q), shaped(k), {shaped(v)}};
  rapt::attend(inputs, outputs, options);
  rapt::attend_backward(inputs, {outputs.out[0]}, {shaped(grad)}, &saved, gradients, options);
  return r;
}

void expect_same_bits(const std::vector<float>& a, const float* b, const char* what) {
  EXPECT_EQ(std::memcmp(a.data(), b, a.size() * sizeof(float)), 0) << what;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  double most = 0, size = 0;
  for (std::size_t n = 0; n < a.size(); ++n) {
    most = std::max(most, std::abs(static_cast<double>(a[n]) - static_cast<double>(b[n])));
    size = std::max(size, std::abs(static_cast<double>(b[n])));
    ASSERT_FALSE(std::isnan(a[n])) << what << " " << n;
  }
  EXPECT_LE(most, 2e-5 * size) << what;
}

// Mapped rows of four heads take 32 MB forward and backward: more than one wave.
TEST(WavesSlow, EachHeadIsAsIfAlone) {
  const std::int64_t heads = 4, sequence = 2048, dim = 256;
  const std::int64_t one = sequence * dim;
  const auto q = random_numbers(heads * one, 1, 1), k = random_numbers(heads * one, 2, 1),
             v = random_numbers(heads * one, 3, 1), grad = random_numbers(heads * one, 4, 1),
             w = random_numbers(heads * dim * dim, 5, 0.02F);
  const Results all = run("bilinear", heads, sequence, dim, q.data(), k.data(), v.data(), grad.data(),
                          {{"W", w, heads, dim, dim}}, 2, rapt::Path::generic);
  for (const std::int64_t h : {std::int64_t{0}, std::int64_t{3}}) {
    const std::int64_t at = h * one;
    const std::vector<float> own(w.begin() + h * dim * dim, w.begin() + (h + 1) * dim * dim);
    const Results alone = run("bilinear", 1, sequence, dim, q.data() + at, k.data() + at, v.data() + at,
                              grad.data() + at, {{"W", own, 1, dim, dim}}, 2, rapt::Path::generic);
    expect_same_bits(alone.out, all.out.data() + at, "out");
    expect_same_bits(alone.dq, all.dq.data() + at, "dq");
    expect_same_bits(alone.dk, all.dk.data() + at, "dk");
    expect_same_bits(alone.dv, all.dv.data() + at, "dv");
    expect_same_bits(alone.dp[0], all.dp[0].data() + h * dim * dim, "dW");
  }
}

class LargeTablesSlow : public ::testing::TestWithParam<bool> {};

// A copy of this table for every task would take too much.
TEST_P(LargeTablesSlow, MatchTheReferenceOnAnyNumberOfThreads) {
  const bool per_head = GetParam();
  const std::int64_t heads = 8, sequence = 1400, dim = 64, rows = 2 * sequence - 1;
  const std::int64_t count = heads * sequence * dim;
  const auto q = random_numbers(count, 1, 1), k = random_numbers(count, 2, 1), v = random_numbers(count, 3, 1),
             grad = random_numbers(count, 4, 1);
  std::vector<Named> parameters;
  const char* name = per_head ? "transformer_xl" : "shaw";
  if (per_head) {
    // Long keys make many chunks, which add to the table of their head in turn.
    parameters = {{"r", random_numbers(heads * rows * dim, 5, 0.5F), heads, rows, dim},
                  {"u", random_numbers(heads * dim, 6, 0.5F), 1, heads, dim},
                  {"v", random_numbers(heads * dim, 7, 0.5F), 1, heads, dim}};
  } else {
    parameters = {{"a", random_numbers(60001 * dim, 5, 0.5F), 1, 60001, dim}};
  }
  const auto go = [&](int threads, rapt::Path path) {
    return run(name, heads, sequence, dim, q.data(), k.data(), v.data(), grad.data(), parameters, threads, path);
  };
  const Results reference = go(1, rapt::Path::reference), single = go(1, rapt::Path::generic),
                triple = go(3, rapt::Path::generic), many = go(16, rapt::Path::generic);
  expect_near(single.out, reference.out, "out");
  expect_near(single.dq, reference.dq, "dq");
  expect_near(single.dk, reference.dk, "dk");
  for (std::size_t n = 0; n < parameters.size(); ++n) {
    expect_near(single.dp[n], reference.dp[n], parameters[n].name.c_str());
    expect_same_bits(single.dp[n], triple.dp[n].data(), parameters[n].name.c_str());
    expect_same_bits(single.dp[n], many.dp[n].data(), parameters[n].name.c_str());
  }
  expect_same_bits(single.dq, triple.dq.data(), "dq");
  expect_same_bits(single.dk, triple.dk.data(), "dk");
  expect_same_bits(single.dq, many.dq.data(), "dq");
}

INSTANTIATE_TEST_SUITE_P(Heads, LargeTablesSlow, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "PerHead" : "Shared"; });

}  // namespace
