// Under a mask whose pairs grow with the sequence a backward pass takes time that does: counted in the blocks that its
// tasks come to, since no clock is fair on a busy machine.

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "backends/cpu/block_visits.h"
#include "rapt/attend.h"
#include "rapt/registry.h"
#include "support/call.h"
#include "support/device.h"

namespace {

using Int = std::int64_t;

struct Shape {
  Int batch = 1, heads = 1, key_heads = 1;
  bool bias = false;  // one number for each key
};

// Self-attention over `length` positions; what its backward pass visits.
Int visits(const Shape& shape, Int length, const std::function<void(rapt::AttendOptions&)>& mask) {
  const Int dim = 4;
  const auto array = [&](Int heads) {
    return std::vector<float>(static_cast<std::size_t>(shape.batch * heads * length * dim));
  };
  std::vector<float> q = array(shape.heads), k = array(shape.key_heads), out = q, dq = q, dk = k, dv = k;
  for (std::size_t n = 0; n < q.size(); ++n) q[n] = static_cast<float>(n % 7) / 7;
  for (std::size_t n = 0; n < k.size(); ++n) k[n] = static_cast<float>(n % 5) / 5;
  std::vector<float> bias(static_cast<std::size_t>(length), 0.5F), dbias = bias;
  const auto view = [&](auto& x, Int heads) { return rapt::view(x.data(), {shape.batch, heads, length, dim}); };
  rapt::AttendOptions options;
  options.threads = 2;
  mask(options);
  rapt::Inputs inputs{view(q, shape.heads), view(k, shape.key_heads), {view(k, shape.key_heads)}};
  if (shape.bias) options.bias = rapt::view(bias.data(), {1, 1, 1, length});
  rapt::Saved saved;
  rapt::attend(inputs, {.out = {view(out, shape.heads)}, .saved = &saved}, options);
  rapt::Gradients gradients;
  gradients.q = view(dq, shape.heads);
  gradients.k = view(dk, shape.key_heads);
  gradients.v = {view(dv, shape.key_heads)};
  if (shape.bias) gradients.bias = rapt::view(dbias.data(), {1, 1, 1, length});
  const Int before = rapt::visited_blocks;
  rapt::attend_backward(inputs, {view(out, shape.heads)}, {view(q, shape.heads)}, &saved, gradients, options);
  return rapt::visited_blocks - before;
}

struct Masked {
  const char* name;
  std::function<void(rapt::AttendOptions&, Int)> mask;
};

std::vector<Int> starts_of(Int length) {
  std::vector<Int> starts;
  for (Int n = 0; n <= length; n += 128) starts.push_back(n);
  return starts;
}

class LinearTime : public testing::TestWithParam<Masked> {};

TEST_P(LinearTime, TwiceTheLengthIsTwiceTheVisits) {
  if (!support::on_cpu()) GTEST_SKIP() << "of the cpu backend";
  for (const Shape& shape : {Shape{1, 1, 1}, {1, 4, 2}, {2, 2, 2}, {1, 1, 1, true}}) {
    const auto count = [&](Int length) {
      return visits(shape, length, [&](rapt::AttendOptions& options) {
        GetParam().mask(options, length);
        if (!options.mask.key_lengths.empty())
          options.mask.key_lengths.resize(static_cast<std::size_t>(shape.batch), 128);
      });
    };
    // Small tasks would hide how their number grows.
    const Int half = count(1 << 15), whole = count(1 << 16);
    SCOPED_TRACE(testing::Message() << shape.batch << " of " << shape.heads << " heads: " << half << ", then "
                                    << whole);
    EXPECT_GT(half, 0);
    EXPECT_LE(whole, 2.2 * static_cast<double>(half));
    // Each block meets a few tasks, not all.
    EXPECT_LE(whole, 3 * shape.batch * shape.heads * (1 << 16) / 16);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Masks, LinearTime,
    testing::Values(Masked{"window",
                           [](rapt::AttendOptions& o, Int) {
                             o.mask.window = {64, 63};
                           }},
                    Masked{"causal_window",
                           [](rapt::AttendOptions& o, Int) {
                             o.mask.causal = rapt::Causal::top_left;
                             o.mask.window = {127, -1};
                           }},
                    Masked{"packed", [](rapt::AttendOptions& o,
                                        Int length) { o.mask.query_starts = o.mask.key_starts = starts_of(length); }},
                    Masked{"key_lengths", [](rapt::AttendOptions& o, Int) { o.mask.key_lengths = {128}; }}),
    [](const auto& test) { return std::string(test.param.name); });

// Every mechanism, whatever path its backward pass takes: the parameters of some are tables as long as the sequence.
class LinearTimeOf : public testing::TestWithParam<std::string> {};

TEST_P(LinearTimeOf, VisitsGrowAsTheLength) {
  if (!support::on_cpu()) GTEST_SKIP() << "of the cpu backend";
  const auto count = [](Int length) {
    support::CaseSpec spec;
    spec.mechanism = GetParam();
    spec.batch = spec.heads = spec.key_heads = 1;
    spec.queries = spec.keys = length;
    spec.key_dim = 4;
    spec.value_dims = {4};
    support::Call call(support::make_case(spec));
    call.options.threads = 2;
    call.options.mask.window = {64, 63};
    const Int before = rapt::visited_blocks;
    const support::BackwardResult result = call.backward();
    EXPECT_EQ(result.damage, "");
    return rapt::visited_blocks - before;
  };
  // A second pass, which corrects the first, may come or not: each block meets a few tasks, not all.
  for (const Int length : {Int{1} << 15, Int{1} << 16}) {
    const Int visits = count(length);
    EXPECT_GT(visits, 0);
    EXPECT_LE(visits, 3 * length / 16) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, LinearTimeOf, testing::ValuesIn(support::registered_names()),
                         [](const auto& test) { return test.param; });

// A query's numbers for the rows and columns of a grid are made for those alone that its window reaches: in processor time,
// where making all of them takes 15 times as long on the wide grid.
TEST(LinearTimeOnAGrid, WideRowsCostWhatShortOnesDo) {
  if (!support::on_cpu()) GTEST_SKIP() << "of the cpu backend";
  constexpr Int kRows = 89, kColumns = 92;
  const auto seconds = [](Int rows, Int columns, bool backward) {
    support::CaseSpec spec;
    spec.mechanism = "learned_2d";
    spec.dtype = rapt::Dtype::f32;
    spec.batch = spec.heads = spec.key_heads = 1;
    spec.queries = spec.keys = kRows * kColumns;
    spec.key_dim = 16;
    spec.value_dims = {4};
    support::Case c = support::make_case(spec);
    c.problem.grid = {rows, columns};
    for (const auto& [name, size] : {std::pair{"row", rows}, {"col", columns}})
      c.problem.parameters.at(name) = oracle::Array({1, 1, 2 * size - 1, spec.key_dim});
    support::Call call(c);
    call.options.threads = 1;
    call.options.mask.window = {32, 31};
    std::clock_t best = std::numeric_limits<std::clock_t>::max();
    for (int n = 0; n < 5; ++n) {
      const std::clock_t start = std::clock();
      if (backward) call.backward();
      else call.forward();
      best = std::min(best, std::clock() - start);
    }
    return static_cast<double>(best) / CLOCKS_PER_SEC;
  };
  for (const bool backward : {false, true})
    EXPECT_LE(seconds(2, kRows * kColumns / 2, backward), 4 * seconds(kRows, kColumns, backward))
        << (backward ? "backward" : "forward");
}

// The count itself: where nothing is hidden every task comes to every block, of at most 128 queries.
TEST(LinearTimeCount, SeesAllOfAMatrix) {
  if (!support::on_cpu()) GTEST_SKIP() << "of the cpu backend";
  EXPECT_GE(visits({}, 1 << 12, [](rapt::AttendOptions&) {}), 16 * ((1 << 12) / 128));
}

}  // namespace
