// Numbers at which a careless rearrangement of a formula loses digits; errors stay near those of the plain formula.

#include <gtest/gtest.h>

#include "support/checks.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using support::Call;
using support::Case;
using support::CaseSpec;

class Precision : public testing::TestWithParam<rapt::Dtype> {
 protected:
  static Case case_of(const CaseSpec& given) {
    CaseSpec s = given;
    s.dtype = GetParam();
    return make_case(s);
  }

  static void check(const Case& c) {
    const support::Expected expected(c, true);
    for (rapt::Path path : {rapt::Path::automatic, rapt::Path::generic, rapt::Path::reference}) {
      SCOPED_TRACE(testing::Message() << "path " << static_cast<int>(path));
      Call call(c);
      call.options.path = path;
      EXPECT_TRUE(expected.matches(call.forward()));
      EXPECT_TRUE(expected.matches(call.backward()));
    }
  }
};

TEST_P(Precision, LargeAdditiveInputsLeaveTheFastPath) {
  for (double size : {3.0, 5.0, 7.0, 9.0, 12.0, 20.0, 60.0, 1000.0}) {
    SCOPED_TRACE(size);
    CaseSpec s;
    s.mechanism = "additive";
    s.optional_parameters = false;
    Case c = case_of(s);
    for (double& e : c.problem.q.data) e = support::round_to(GetParam(), e * size);
    for (double& e : c.problem.k.data) e = support::round_to(GetParam(), -e * size);
    check(c);
  }
}

// One large row must not affect the others' digits, nor they its path.
TEST_P(Precision, OneLargeAdditiveRow) {
  CaseSpec s;
  s.mechanism = "additive";
  s.optional_parameters = false;
  s.queries = s.keys = 70;
  Case c = case_of(s);
  for (support::Int d = 0; d < 8; ++d) {
    c.problem.q.at(0, 0, 33, d) = d % 2 ? 90 : -90;
    c.problem.k.at(0, 0, 50, d) = d % 3 ? -90 : 90;
  }
  check(c);
}

// Small differences of large vectors: ‖q‖² + ‖k‖² − 2q·k would lose them.
TEST_P(Precision, DistancesOfLargeVectors) {
  CaseSpec s;
  s.mechanism = "distance";
  Case c = case_of(s);
  for (double& e : c.problem.q.data) e = support::round_to(GetParam(), 100 + e);
  for (double& e : c.problem.k.data) e = support::round_to(GetParam(), 100 + e);
  check(c);
}

// Scores that grow with distance are largest for positions past the ends, which no query may see.
TEST_P(Precision, SlopesThatGrowWithDistance) {
  for (double slope : {-0.5, -1.875, -2.0, -2.125, -3.0, -50.0}) {
    SCOPED_TRACE(slope);
    CaseSpec s;
    s.mechanism = "alibi";
    s.queries = s.keys = 45;
    Case c = case_of(s);
    c.problem.parameters.at("m").data = {slope, slope};
    check(c);
  }
}

// Where the softcap lets next to nothing through, what it lets through is exact: 1 − tanh² would have no digits.
TEST_P(Precision, GradientsThroughASaturatedSoftcap) {
  for (const double cap : {0.5, 0.3, 0.2, 0.12}) {
    SCOPED_TRACE(cap);
    CaseSpec s;
    s.softcap = cap;
    s.mask = support::MaskKind::top_left;
    Case c = case_of(s);
    for (Array* x : {&c.problem.q, &c.problem.k})
      for (double& e : x->data) e = support::round_to(GetParam(), 1 + e / 16);
    const oracle::Gradients exact = oracle::backward(c.problem, c.grad_out);
    for (rapt::Path path : {rapt::Path::automatic, rapt::Path::generic, rapt::Path::reference}) {
      SCOPED_TRACE(testing::Message() << "path " << static_cast<int>(path));
      Call call(c);
      call.options.path = path;
      const oracle::Gradients got = call.backward().gradients;
      const auto check = [](const Array& x, const Array& want) {
        const double most = support::largest(want);
        double bound = 1e-4 * most + 0x1p-126;
        if (GetParam() == rapt::Dtype::f64) bound = 1e-11 * most;
        else if (GetParam() != rapt::Dtype::f32) bound += 2 * support::half_step(GetParam(), most);
        EXPECT_GT(most, 0);
        EXPECT_LE(support::largest_difference(x, want), bound) << most;
      };
      check(got.q, exact.q);
      check(got.k, exact.k);
    }
  }
}

// Flat and steep, centred on the query, between positions, and far outside the grid.
TEST_P(Precision, GridMechanismsFarFromTheirCentre) {
  for (const char* mechanism : {"quadratic", "gaussian"})
    for (double width : {0.001, 1.0, 16.0})
      for (double center : {0.0, 2.5, -40.0}) {
        SCOPED_TRACE(testing::Message() << mechanism << " " << width << " at " << center);
        CaseSpec s;
        s.mechanism = mechanism;
        s.keys = 80;
        Case c = case_of(s);
        c.problem.parameters.at("center").data = {center, 1, -1, center};
        Array& steep = c.problem.parameters.at(s.mechanism == "quadratic" ? "alpha" : "gamma");
        for (double& e : steep.data) e = support::round_to(GetParam(), e * width);
        check(c);
      }
}

std::string type_name(const testing::TestParamInfo<rapt::Dtype>& type) { return support::label(type.param); }

INSTANTIATE_TEST_SUITE_P(Types, Precision, testing::ValuesIn(support::all_dtypes()), type_name);

}  // namespace
