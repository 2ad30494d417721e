// The bound of exactness_test.cc on random problems: every mechanism and type, head dims from 1 to 1,024, with
// offsets, scales, masks, rotary positions, biases, softcaps, shared keys and all normalisers; and with pair products of bf16.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attend/exact_errors.h"
#include "backends/cpu/x86/bf16.h"
#include "support/device.h"
#include "support/sanitized.h"
#include "support/storage.h"

namespace {

using support::Case;
using support::CaseSpec;
using support::Int;
using support::NormalizerKind;
using support::Random;

// One or two seeds may be right by luck.
constexpr int kSeeds = support::unless_sanitized(40, 1);

struct Problem {
  CaseSpec spec;
  double query_offset = 0, key_offset = 0, value_offset = 0, scale = 1, value_scale = 1;
};

template <class List>
auto pick(Random& random, const List& list) {
  return list[static_cast<std::size_t>(random.below(static_cast<Int>(list.size())))];
}

double between(Random& random, double low, double high) {
  return std::exp(random.uniform(std::log(low), std::log(high)));
}

// A problem that the oracle answers in milliseconds.
Problem draw(const std::string& mechanism, rapt::Dtype dtype, bool pairs, Random& random) {
  const auto maybe = [&](double chance) { return random.uniform(0, 1) < chance; };
  Problem p;
  CaseSpec& s = p.spec;
  s.mechanism = mechanism;
  s.dtype = dtype;
  s.key_dim = std::lround(between(random, 1, 1024));
  s.value_dims = {std::lround(between(random, 1, 200))};
  const double most = std::min(70.0, std::sqrt(3e5 / static_cast<double>(s.key_dim)));
  // With few keys rounded weights are exact by luck: what is added to one is taken from another.
  const double least = pairs ? 8 : 1;
  s.queries = std::lround(between(random, least, most));
  s.keys = std::lround(between(random, least, most));
  s.key_heads = 1;
  s.heads = maybe(0.3) ? 3 : 1;
  s.bias = maybe(0.3) ? pick(random, support::all_biases()) : support::BiasKind::none;
  if (maybe(0.3)) s.rotary = maybe(0.5) ? support::RotaryKind::halves : support::RotaryKind::interleaved;
  if (maybe(0.4))
    s.normalizer = pick(random, std::vector{NormalizerKind::softmax_sink, NormalizerKind::sparsemax,
                                            NormalizerKind::entmax15, NormalizerKind::sigmoid_b});
  if (maybe(0.4))
    s.mask =
        pick(random, std::vector{support::MaskKind::top_left, support::MaskKind::window, support::MaskKind::key_lengths,
                                 support::MaskKind::packed, support::MaskKind::dense, support::MaskKind::bottom_right});
  s.settings = support::Settings::defaults;
  const auto offset = [&] { return maybe(0.5) ? 0 : random.uniform(-10, 10); };
  p.value_offset = offset();
  p.query_offset = maybe(0.7) ? 0 : random.uniform(-3, 3);
  p.key_offset = offset();
  p.scale = maybe(0.4) ? 1 : between(random, 1e-3, 6);
  p.value_scale = maybe(0.4) ? 1 : between(random, 1e-3, 10);
  if (maybe(0.3)) s.softcap = between(random, 0.5, 60);
  return p;
}

Case make(const Problem& p, std::uint64_t seed) {
  CaseSpec s = p.spec;
  s.seed = seed;
  Case c = make_case(s);
  const auto change = [&](oracle::Array& x, double factor, double offset) {
    for (double& e : x.data) e = support::round_to(s.dtype, e * factor + offset);
  };
  change(c.problem.q, p.scale, p.query_offset);
  change(c.problem.k, p.scale, p.key_offset);
  for (oracle::Array& v : c.problem.v) change(v, p.value_scale, p.value_offset);
  return c;
}

void check(const Problem& p, bool pairs) {
  SCOPED_TRACE(testing::Message() << describe(p.spec) << ", queries + " << p.query_offset << ", keys + " << p.key_offset
                                  << ", values + " << p.value_offset << ", times " << p.scale << ", values times "
                                  << p.value_scale << (pairs ? ", with pair products" : ""));
  // Scores with offsets make the gradients of one seed thousands of times those of another; 16 bits have absolute steps.
  exact::Errors errors(p.spec.dtype == rapt::Dtype::f32 ? exact::SeedWeight::relative : exact::SeedWeight::absolute);
  exact::Errors alone;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const Case c = make(p, static_cast<std::uint64_t>(seed));
    exact::add_outputs(errors, c, pairs);
    exact::add_gradients(errors, c, pairs, true);
    if (p.spec.dtype != rapt::Dtype::f32) exact::add_gradients(alone, c, pairs, false);
  }
  errors.expect_within();
  alone.expect_within(", without saved");
}

class RandomExactness : public testing::TestWithParam<support::MechanismAndType> {
 protected:
  void SetUp() override {
    if (!support::on_cpu()) GTEST_SKIP() << "of the cpu backend";
    usual_ = rapt::active_bf16(rapt::active_isa());
  }
  void TearDown() override {
    if (support::on_cpu()) rapt::set_active_bf16(usual_);
  }

  static void check_problems(bool pairs) {
    const auto& [mechanism, dtype] = GetParam();
    std::uint64_t seed = static_cast<std::uint64_t>(dtype);
    for (const char letter : mechanism) seed = 31 * seed + static_cast<unsigned char>(letter);
    Random random(seed);
    for (int n = 0; n < support::unless_sanitized(10, 2); ++n) check(draw(mechanism, dtype, pairs, random), pairs);
  }

  const rapt::Bf16Kernels* usual_ = nullptr;
};

class RandomExactnessSlow : public RandomExactness {};

TEST_P(RandomExactnessSlow, AtMostTwiceTheNaiveError) {
  rapt::set_active_bf16(nullptr);
  check_problems(false);
}

INSTANTIATE_TEST_SUITE_P(Registry, RandomExactnessSlow,
                         testing::Combine(testing::ValuesIn(support::registered_names()),
                                          testing::Values(rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16,
                                                          rapt::Dtype::f16)),
                         support::mechanism_and_type);

class PairExactnessSlow : public RandomExactness {};

// The naive formula in bf16 rounds weights and gradients of scores, like pair products.
TEST_P(PairExactnessSlow, AtMostTwiceTheNaiveError) {
  const rapt::Bf16Choices& choices = rapt::available_bf16();
  if (choices.count == 0) GTEST_SKIP() << "this processor has no pair products of bf16";
  for (int n = 0; n < choices.count; ++n) {
    SCOPED_TRACE(choices.list[n]->name);
    rapt::set_active_bf16(choices.list[n]);
    check_problems(true);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, PairExactnessSlow,
                         testing::Combine(testing::ValuesIn(support::registered_names()),
                                          testing::Values(rapt::Dtype::bf16)),
                         support::mechanism_and_type);

// One number for all pairs: its gradient is a sum that cancels, after a rotation that rounds.
TEST(ExactnessOfRotatedRowsSlow, GradientOfTau) {
  for (const Int dim : {2, 64, 130, 256})
    for (const auto rotary : {support::RotaryKind::halves, support::RotaryKind::interleaved})
      for (const double offset : {0.0, 10.0}) {
        Problem p;
        p.spec.mechanism = "cosine";
        p.spec.dtype = rapt::Dtype::f32;
        p.spec.heads = 1;
        p.spec.queries = p.spec.keys = 40;
        p.spec.key_dim = dim;
        p.spec.value_dims = {dim};
        p.spec.rotary = rotary;
        p.key_offset = p.value_offset = offset;
        check(p, false);
      }
}

}  // namespace
