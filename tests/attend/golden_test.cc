// The worked examples: the oracle and the library must both print the numbers of the documents.

#include <gtest/gtest.h>

#include <cmath>

#include "oracle/oracle.h"
#include "support/call.h"

namespace {

using oracle::Array;
using oracle::Int;

// x [rows, in] · w [in, out]
std::vector<double> product(const std::vector<double>& x, const std::vector<double>& w, Int in, Int out) {
  const Int rows = static_cast<Int>(x.size()) / in;
  std::vector<double> y(static_cast<std::size_t>(rows * out));
  for (Int r = 0; r < rows; ++r)
    for (Int c = 0; c < out; ++c)
      for (Int d = 0; d < in; ++d)
        y[std::size_t(r * out + c)] += x[std::size_t(r * in + d)] * w[std::size_t(d * out + c)];
  return y;
}

// Printed digits: half a unit of the last of eight decimals.
void expect_printed(const std::vector<double>& got, const std::vector<double>& printed, double tolerance = 5.1e-9) {
  ASSERT_EQ(got.size(), printed.size());
  for (std::size_t n = 0; n < got.size(); ++n) EXPECT_NEAR(got[n], printed[n], tolerance) << "element " << n;
}

void expect_relative(const std::vector<double>& got, const std::vector<double>& printed) {
  ASSERT_EQ(got.size(), printed.size());
  for (std::size_t n = 0; n < got.size(); ++n)
    EXPECT_NEAR(got[n], printed[n], 5.1e-9 * std::abs(printed[n]) * 1.1) << n;
}

const std::vector<double> kX = {-2, 1, .5, 1, 1.5, -.5, -1.5, 1, -.5, -2, -2.5, 1.5};

oracle::Problem one_query() {
  oracle::Problem p;
  p.mechanism = "scaled_dot";
  p.q = Array({1, 1, 1, 3}, {-2, 1, -1});
  p.k = Array({1, 1, 4, 3}, kX);
  p.v = {p.k};
  return p;
}

// Both heads of 1.2 and 1.3 in one problem.
oracle::Problem two_heads() {
  const std::vector<double> ones(6, 1.0);
  const auto both = [&](const std::vector<double>& w) {
    std::vector<double> rows = product(kX, w, 3, 2);
    const std::vector<double> second = product(kX, ones, 3, 2);
    rows.insert(rows.end(), second.begin(), second.end());
    return Array({1, 2, 4, 2}, rows);
  };
  oracle::Problem p;
  p.mechanism = "scaled_dot";
  p.q = both({1, -1.5, 0, 2, -.5, -1});
  p.k = both({-1.5, -1, 2.5, 0, .5, -1});
  p.v = {both({1, 2.5, -.5, -2, 0, -1})};
  return p;
}

oracle::Problem hard_example() {
  // Rows h, and W transposed: x @ W.
  const std::vector<double> h = {5, 1, 4, 3, -2, 6};
  oracle::Problem p;
  p.mechanism = "dot";
  p.q = Array({1, 1, 3, 2}, product(h, {1, 2, 0, 9}, 2, 2));
  p.k = Array({1, 1, 3, 2}, product(h, {0, 6, 1, 0}, 2, 2));
  p.v = {Array({1, 1, 3, 2}, product(h, {4, 9, 3, 1}, 2, 2))};
  p.normalizer = oracle::Normalizer::argmax;
  return p;
}

struct Answer {
  Array out, weights, lse;
};

// Who answers: the oracle, or the library by one of its paths.
enum class Who { oracle, automatic, generic, reference };

Answer ask(Who who, const oracle::Problem& problem) {
  if (who == Who::oracle) {
    const oracle::Forward f = oracle::forward(problem);
    return {f.out[0], f.weights, f.lse};
  }
  support::Call call(support::make_case(problem, rapt::Dtype::f64));
  call.options.path = who == Who::automatic ? rapt::Path::automatic
                      : who == Who::generic ? rapt::Path::generic
                                            : rapt::Path::reference;
  support::ForwardWants wants;
  wants.weights = true;
  const support::ForwardResult r = call.forward(wants);
  EXPECT_EQ(r.damage, "");
  return {r.out[0], r.weights, r.lse};
}

class Golden : public testing::TestWithParam<Who> {};

TEST_P(Golden, OneQuery) {
  const Answer a = ask(GetParam(), one_query());
  expect_printed(a.weights.data, {0.46536883, 0.03463117, 0.46536883, 0.03463117});
  expect_printed(a.out.data, {-1.66342208, 0.8961065, 0.03463117});
  // z = [2.59807621, 0, 2.59807621, 0]
  EXPECT_NEAR(a.lse.data[0], std::log(2 * std::exp(2.59807621) + 2), 1e-8);
}

TEST_P(Golden, TwoHeads) {
  const Answer a = ask(GetParam(), two_heads());
  expect_relative(
      a.weights.data,
      {4.79433566e-05, 3.22098620e-05, 1.71943035e-03, 9.98200416e-01, 5.97319598e-01, 1.28333499e-03, 4.01298182e-01,
       9.88847812e-05, 1.46423661e-02, 4.87223528e-04, 2.37021787e-01, 7.47848624e-01, 9.06143069e-09, 1.87817885e-03,
       2.98824011e-08, 9.98121782e-01, 1.18306921e-01, 2.01966211e-02, 1.68483136e-01, 6.93013322e-01, 8.48429312e-04,
       9.98944583e-01, 2.06267364e-04, 7.20592823e-07, 2.67590116e-02, 7.79843042e-04, 5.42703523e-02, 9.18190793e-01,
       2.47463407e-05, 6.12522986e-10, 2.06437556e-04, 9.99768815e-01});
  expect_printed(a.out.data, {-0.75220098, -1.50668721, -2.29564869, -6.58686077, -1.07141415, -2.47595506, -0.74812187,
                              -1.49718290, -2.26628332, -2.26628332, 1.99725652, 1.99725652, -2.82066255, -2.82066255,
                              -2.99952526, -2.99952526});
}

TEST_P(Golden, TwoHeadsProjected) {
  const Answer a = ask(GetParam(), two_heads());
  std::vector<double> joined;
  for (Int i = 0; i < 4; ++i)
    for (Int h = 0; h < 2; ++h)
      for (Int d = 0; d < 2; ++d) joined.push_back(a.out.at(0, h, i, d));
  expect_printed(product(joined, {-1, 1.5, 2, 0, -1, -2, 1, -1.5, 0, 2, 0, 1}, 4, 3),
                 {-6.04664898, 3.77781072, -0.75731086, 8.28741825, 0.14750295, 10.57968068, -7.39057350, 5.09982766,
                  -0.01158073, -8.25045389, 4.87428797, -1.50140321});
}

TEST_P(Golden, HardAttention) {
  const Answer a = ask(GetParam(), hard_example());
  EXPECT_EQ(a.lse.data[1], 1054);
  EXPECT_EQ(a.weights.at(0, 0, 1, 0), 1);
  EXPECT_EQ(a.weights.at(0, 0, 1, 1), 0);
  EXPECT_EQ(a.out.at(0, 0, 1, 0), 23);
  EXPECT_EQ(a.out.at(0, 0, 1, 1), 46);
}

std::string answerer(const testing::TestParamInfo<Who>& who) {
  constexpr const char* kNames[] = {"oracle", "automatic", "generic", "reference"};
  return kNames[static_cast<int>(who.param)];
}

INSTANTIATE_TEST_SUITE_P(By, Golden, testing::Values(Who::oracle, Who::automatic, Who::generic, Who::reference),
                         answerer);

TEST(GoldenScores, OfTheSecondQuery) {
  const oracle::Forward f = oracle::forward(hard_example());
  EXPECT_EQ(f.scores.at(0, 0, 1, 0), 1054);
  EXPECT_EQ(f.scores.at(0, 0, 1, 1), 852);
  EXPECT_EQ(f.scores.at(0, 0, 1, 2), -396);
}

}  // namespace
