// Additive scores keep their promise (at most twice the naive error) whatever form their pairs take: where queries and keys
// are small, or far from 0 and cancel, or small in nearly all dimensions, 1 − 2/(1 + e^{2a}e^{2b}) has lost its digits.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "attend/exact_errors.h"
#include "support/device.h"
#include "support/sanitized.h"
#include "support/storage.h"

namespace {

using support::Case;
using support::CaseSpec;
using support::Int;

constexpr std::uint64_t kAdditiveSeeds = support::unless_sanitized<std::uint64_t>(8, 1);
constexpr double kLargeWeight = 4;  // large weights show errors of scores

using ChangeOfCase = std::function<void(Case&)>;

Case make_additive(rapt::Dtype dtype, Int dim, double scale, double offset, std::uint64_t seed,
                   const ChangeOfCase& change) {
  CaseSpec s;
  s.mechanism = "additive";
  s.dtype = dtype;
  s.optional_parameters = false;
  s.heads = 1;
  s.queries = 21;
  s.keys = 24;
  s.key_dim = dim;
  s.seed = seed;
  Case c = make_case(s);
  for (double& e : c.problem.q.data) e = support::round_to(dtype, e * scale + offset);
  for (double& e : c.problem.k.data) e = support::round_to(dtype, e * scale - offset);
  for (double& e : c.problem.parameters.at("w").data) e = support::round_to(dtype, e * kLargeWeight);
  if (change) change(c);
  return c;
}

void check_additive(rapt::Dtype dtype, Int dim, double scale, double offset, const ChangeOfCase& change = {}) {
  SCOPED_TRACE(testing::Message() << support::label(dtype) << ", " << dim << " dimensions, times " << scale
                                  << ", offset " << offset);
  exact::Errors errors;
  for (std::uint64_t seed = 1; seed <= kAdditiveSeeds; ++seed) {
    const Case c = make_additive(dtype, dim, scale, offset, seed, change);
    exact::add_outputs(errors, c, false);
    exact::add_gradients(errors, c, false, true);
  }
  errors.expect_within();
}

constexpr double kAdditiveScales[] = {1e-4, 0.01, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 1};

class AdditiveExactnessSlow : public testing::TestWithParam<rapt::Dtype> {
 protected:
  void SetUp() override {
    if (!support::on_cpu()) GTEST_SKIP() << "of the cpu backend";
  }
};

TEST_P(AdditiveExactnessSlow, Scales) {
  for (const Int dim : {1, 3, 16, 64, 256})
    for (const double scale : kAdditiveScales) check_additive(GetParam(), dim, scale, 0);
}

TEST_P(AdditiveExactnessSlow, OffsetsThatCancel) {
  for (const Int dim : {16, 64})
    for (const double offset : {0.5, 3.0, 8.0})
      for (const double scale : kAdditiveScales) check_additive(GetParam(), dim, scale, offset);
}

// Rows of one large number, which says nothing of the others; and beside them a row that has no fast form at all.
TEST_P(AdditiveExactnessSlow, FewLargeNumbers) {
  const auto sparse = [](Case& c) {
    for (oracle::Array* x : {&c.problem.q, &c.problem.k})
      for (Int i = 0; i < x->shape[2]; ++i) x->at(0, 0, i, i % x->shape[3]) = i % 2 ? 5 : -5;
  };
  const auto apart = [&](Case& c) {
    sparse(c);
    for (Int d = 0; d < c.problem.q.shape[3]; ++d) c.problem.q.at(0, 0, 7, d) = d % 2 ? 40 : -40;
    for (Int d = 0; d < c.problem.k.shape[3]; ++d) c.problem.k.at(0, 0, 3, d) = d % 3 ? 12 : -12;
  };
  for (const double scale : kAdditiveScales) {
    check_additive(GetParam(), 64, scale, 0, sparse);
    check_additive(GetParam(), 64, scale, 0, apart);
  }
}

// One row that is not small, or that has no fast form, leaves the others' gradients as exact as they are alone.
TEST_P(AdditiveExactnessSlow, SmallRowsBesideLargeOnes) {
  for (const double large : {1.0, 30.0}) {
    const auto change = [&](Case& c) {
      for (Int d = 0; d < c.problem.q.shape[3]; ++d) c.problem.q.at(0, 0, 7, d) = d % 2 ? large : -large;
    };
    for (const double scale : kAdditiveScales) check_additive(GetParam(), 40, scale, 0, change);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AdditiveExactnessSlow,
                         testing::Values(rapt::Dtype::f32, rapt::Dtype::bf16, rapt::Dtype::f16, rapt::Dtype::f64),
                         [](const auto& type) { return std::string(support::label(type.param)); });

TEST(AdditiveExactnessOfWidthsSlow, Scales) {
  if (!support::on_cpu()) GTEST_SKIP() << "of the cpu backend";
  for (const rapt::Isa isa : rapt::available_isas()) {
    const support::IsaScope scope(isa);
    SCOPED_TRACE(rapt::name_of(isa));
    for (const double scale : kAdditiveScales) {
      check_additive(rapt::Dtype::f32, 64, scale, 0);
      check_additive(rapt::Dtype::f32, 64, scale, 3);
    }
  }
}

}  // namespace
