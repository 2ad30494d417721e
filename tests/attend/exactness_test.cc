// The backward pass is at most twice as far from f64 as the naive formula in f32 is, also where what all pairs of a row
// have in common (offsets of keys and values, long rows, positions) is much larger than what tells them apart.

#include <gtest/gtest.h>

#include <cmath>

#include "attend/exact_errors.h"
#include "backends/cpu/x86/bf16.h"
#include "support/device.h"
#include "support/sanitized.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using support::Call;
using support::Case;
using support::CaseSpec;
using support::Int;

struct Shape {
  Int queries, keys, dim;
};

struct Numbers {
  double key_offset = 0, value_offset = 0, scale = 1;
};

class ExactnessSlow : public testing::TestWithParam<support::MechanismAndType> {
 protected:
  static constexpr int kSeeds = support::unless_sanitized(10, 1);

  static rapt::Dtype dtype() { return std::get<1>(GetParam()); }

  static bool oracle_maps() {
    const std::string& name = std::get<0>(GetParam());
    return name == "bilinear" || name == "additive" || name == "cosine";
  }

  static Case make(const Shape& shape, const Numbers& numbers, std::uint64_t seed, support::MaskKind mask) {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = dtype();
    s.queries = shape.queries;
    s.keys = shape.keys;
    s.key_dim = shape.dim;
    s.value_dims = {shape.dim};
    s.heads = 1;
    s.mask = mask;
    s.seed = seed;
    Case c = make_case(s);
    const auto change = [&](Array& x, double factor, double offset) {
      for (double& e : x.data) e = support::round_to(dtype(), e * factor + offset);
    };
    change(c.problem.q, numbers.scale, 0);
    change(c.problem.k, numbers.scale, numbers.key_offset);
    for (Array& v : c.problem.v) change(v, numbers.scale, numbers.value_offset);
    return c;
  }

  static void check(const Shape& shape, const Numbers& numbers, support::MaskKind mask = support::MaskKind::none) {
    SCOPED_TRACE(testing::Message() << shape.queries << "×" << shape.keys << "×" << shape.dim << ", keys + "
                                    << numbers.key_offset << ", values + " << numbers.value_offset << ", times "
                                    << numbers.scale << ", " << label(mask));
    // What the forward pass saves matters to 16-bit types alone.
    for (const bool saved : {true, false}) {
      if (!saved && dtype() == rapt::Dtype::f32) continue;
      exact::Errors errors;
      for (int seed = 1; seed <= kSeeds; ++seed)
        exact::add_gradients(errors, make(shape, numbers, static_cast<std::uint64_t>(seed), mask), false, saved);
      errors.expect_within(saved ? "" : ", without saved");
    }
  }

  // Pair products round weights: exactness_random_test.cc has their bound.
  void SetUp() override {
    if (!support::on_cpu()) GTEST_SKIP() << "of the cpu backend";
    usual_ = rapt::active_bf16(rapt::active_isa());
    rapt::set_active_bf16(nullptr);
  }
  void TearDown() override {
    if (support::on_cpu()) rapt::set_active_bf16(usual_);
  }

 private:
  const rapt::Bf16Kernels* usual_ = nullptr;
};

TEST_P(ExactnessSlow, Offsets) {
  for (const Shape& shape : {Shape{16, 16, 200}, {70, 70, 16}})
    for (const Numbers& numbers : {Numbers{}, {10, 0, 1}, {0, 10, 1}, {10, 10, 1}}) check(shape, numbers);
}

TEST_P(ExactnessSlow, LongRows) {
  // A map of 1,024 by 1,024 is slow in the oracle.
  const Int dim = oracle_maps() ? 300 : support::unless_sanitized<Int>(1024, 300);
  for (const Numbers& numbers : {Numbers{}, {10, 10, 1}}) check({9, 9, dim}, numbers);
}

// One or two blocks of queries against several tasks of keys.
TEST_P(ExactnessSlow, FewQueries) {
  for (const Shape& shape : {Shape{5, 700, 24}, {70, 300, 24}})
    for (const Numbers& numbers : {Numbers{}, {10, 10, 1}}) check(shape, numbers);
}

TEST_P(ExactnessSlow, FewKeys) {
  for (const Int keys : {1, 2, 5})
    for (const Numbers& numbers : {Numbers{}, {10, 10, 1}}) check({keys, keys, 40}, numbers);
}

// Scores of thousands: every row is one key, and its gradient vanishes.
TEST_P(ExactnessSlow, SaturatedRows) {
  for (const double scale : {4.0, 12.0}) check({20, 20, 40}, {0, 0, scale});
}

TEST_P(ExactnessSlow, SmallNumbers) {
  for (const double scale : {1e-4, 0.02, 0.2}) check({30, 30, 16}, {0, 0, scale});
}

TEST_P(ExactnessSlow, Causal) {
  for (const Numbers& numbers : {Numbers{}, {10, 10, 1}}) check({90, 90, 12}, numbers, support::MaskKind::top_left);
}

INSTANTIATE_TEST_SUITE_P(Registry, ExactnessSlow,
                         testing::Combine(testing::ValuesIn(support::registered_names()),
                                          testing::Values(rapt::Dtype::f32, rapt::Dtype::bf16, rapt::Dtype::f16)),
                         support::mechanism_and_type);

// Terms that are each half of a weight, less one half: their sum must not round at the size of all weights.
TEST(ExactnessOfSumsSlow, AdditiveWithManyWeightsOfOneSign) {
  if (!support::on_cpu()) GTEST_SKIP() << "of the cpu backend";
  for (const double scale : {0.5, 1.0, 3.0}) {
    exact::Errors errors;
    for (std::uint64_t seed = 1; seed <= support::unless_sanitized<std::uint64_t>(5, 1); ++seed) {
      CaseSpec s;
      s.mechanism = "additive";
      s.dtype = rapt::Dtype::f32;
      s.queries = s.keys = 12;
      s.key_dim = support::unless_sanitized<Int>(701, 70);
      s.optional_parameters = false;
      s.heads = 1;
      s.seed = seed;
      Case c = make_case(s);
      for (Array* x : {&c.problem.q, &c.problem.k})
        for (double& e : x->data) e = support::round_to(s.dtype, e * scale);
      for (double& e : c.problem.parameters.at("w").data) e = std::abs(e);
      exact::add_outputs(errors, c, false);
      exact::add_gradients(errors, c, false, true);
    }
    errors.expect_within();
  }
}

// Scores so large that only the largest counts: exactly 0 at any scale.
TEST(Exactness, GradientsOfCertainRowsAreZero) {
  for (const double scale : {1e4, 1e15, 1e30}) {
    CaseSpec s;
    s.dtype = rapt::Dtype::f32;
    s.queries = 24;
    s.keys = 40;
    s.key_dim = s.value_dims[0] = 32;
    s.scale = scale;
    const Case c = make_case(s);
    const oracle::Gradients exact = oracle::backward(c.problem, c.grad_out);
    const oracle::Gradients naive = oracle::backward(c.problem, c.grad_out, oracle::Precision::single);
    const oracle::Gradients got = Call(c).backward().gradients;
    EXPECT_LE(support::largest_difference(got.q, exact.q), 2 * support::largest_difference(naive.q, exact.q)) << scale;
    EXPECT_LE(support::largest_difference(got.k, exact.k), 2 * support::largest_difference(naive.k, exact.k)) << scale;
  }
}

}  // namespace
