// Scores that are a sum over the rows and the columns of a grid, on the device under test: every way to cut a grid, against
// the oracle, and grids too large for it against the two sums written out.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/checks.h"
#include "support/device.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using support::Case;
using support::CaseSpec;
using support::Int;

struct Grid {
  Int rows, cols;
  std::vector<Int> dims;
  Int batch = 2, heads = 3, value_heads = 3, value_batches = 2;
};

// Heads of every kind: one wide, one narrow, one looking off the grid, one flat, one with a valley.
Case case_of(const Grid& g, rapt::Dtype dtype, support::Layout layout = support::Layout::bhsd) {
  CaseSpec s;
  s.mechanism = "quadratic";
  s.dtype = dtype;
  s.batch = g.batch;
  s.heads = g.heads;
  s.key_heads = g.value_heads;
  s.queries = s.keys = g.rows * g.cols;
  s.value_dims = g.dims;
  s.layout = layout;
  s.key_dim = 4;
  Case c = make_case(s);
  // The grid that was asked for, whose places may be more than those of the one that was drawn.
  const Int places = g.rows * g.cols;
  support::Random random(5);
  c.spec.queries = c.spec.keys = places;
  c.problem.grid = {g.rows, g.cols};
  c.problem.q = support::random_array({g.batch, g.heads, places, 4}, random, dtype);
  c.problem.k = support::random_array({g.batch, g.value_heads, places, 4}, random, dtype);
  for (std::size_t n = 0; n < g.dims.size(); ++n) {
    c.problem.v[n] = support::random_array({g.value_batches, g.value_heads, places, g.dims[n]}, random, dtype);
    c.grad_out[n] = support::random_array({g.batch, g.heads, places, g.dims[n]}, random, dtype);
  }
  const double alphas[] = {0.0625, 0.75, 0.25, 0, -0.015625}, centers[] = {0.5, -1.25, -2, 1, 7.5, -30, 0.25, 0, 1, 1};
  c.problem.parameters["alpha"] = Array({1, g.heads, 1, 1}, std::vector<double>(alphas, alphas + g.heads));
  c.problem.parameters["center"] = Array({1, g.heads, 1, 2}, std::vector<double>(centers, centers + 2 * g.heads));
  return c;
}

class GridPasses : public testing::TestWithParam<rapt::Dtype> {};

TEST_P(GridPasses, EveryShape) {
  for (const Grid& g : {Grid{1, 7, {6}},
                        {7, 1, {6}},
                        {1, 1, {3}},
                        {5, 3, {1}},
                        {8, 16, {8}},
                        {16, 16, {44}},
                        {17, 9, {33}},
                        {9, 31, {40}},
                        {3, 40, {64}}}) {
    SCOPED_TRACE(testing::Message() << g.rows << "×" << g.cols << " of " << g.dims[0]);
    check_case(case_of(g, GetParam()));
  }
}

// The matrices of a long axis alone are more than a device's shared memory.
TEST_P(GridPasses, LongAxes) {
  for (const Grid& g : {Grid{4, 250, {5}, 1, 1, 1, 1}, {250, 4, {4}, 1, 1, 1, 1}}) {
    SCOPED_TRACE(testing::Message() << g.rows << "×" << g.cols);
    check_case(case_of(g, GetParam()));
  }
}

TEST_P(GridPasses, SharedAndSeveralValues) {
  for (const Int batches : {1, 3})
    for (const Int heads : {1, 2, 4})
      for (const support::Layout layout : {support::Layout::bhsd, support::Layout::gaps, support::Layout::aligned}) {
        SCOPED_TRACE(testing::Message() << batches << " batches, " << heads << " heads");
        check_case(case_of({6, 5, {1, 36, 48}, 3, 4, heads, batches}, GetParam(), layout));
      }
}

// One step away the weight is e^−900: that value must not matter, forward or backward.
TEST_P(GridPasses, NumbersThatAreNotFinite) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Case c = case_of({6, 7, {4}, 2, 2, 2, 2}, GetParam());
    c.problem.parameters["alpha"].data = {900, 1000};
    c.problem.parameters["center"].data = {0, 0, 1, 0};
    c.problem.v[0].at(0, 0, 9, 2) = bad;
    c.problem.v[0].at(1, 1, 3, 0) = bad;  // the first grid row, which head 1 never looks at
    c.grad_out[0].at(1, 0, 20, 1) = bad;
    support::Call call(c);
    const support::ForwardResult got = call.forward();
    const support::BackwardResult gradients = call.backward();
    call.options.path = rapt::Path::reference;
    const support::ForwardResult want = call.forward();
    const support::BackwardResult want_gradients = call.backward();
    EXPECT_EQ(got.damage + gradients.damage, "");
    const auto compare = [](const Array& a, const Array& b, const char* name) {
      ASSERT_EQ(a.data.size(), b.data.size()) << name;
      for (std::size_t n = 0; n < a.data.size(); ++n)
        EXPECT_EQ(std::isfinite(a.data[n]), std::isfinite(b.data[n])) << name << " " << n;
    };
    compare(got.out[0], want.out[0], "out");
    compare(gradients.gradients.v[0], want_gradients.gradients.v[0], "dv");
    for (const auto& [name, value] : want_gradients.gradients.parameters)
      compare(gradients.gradients.parameters.at(name), value, name.c_str());
    EXPECT_FALSE(std::isfinite(got.out[0].at(0, 0, 9, 2)));
    EXPECT_TRUE(std::isfinite(got.out[0].at(0, 0, 10, 2)));
  }
}

TEST_P(GridPasses, ParametersThatAreNotFinite) {
  Case c = case_of({3, 4, {8}}, GetParam());
  c.problem.parameters["alpha"].data[1] = std::numeric_limits<double>::quiet_NaN();
  const support::ForwardResult got = support::Call(c).forward();
  for (Int i = 0; i < 12; ++i) {
    EXPECT_TRUE(std::isfinite(got.out[0].at(0, 0, i, 0))) << i;
    EXPECT_TRUE(std::isnan(got.out[0].at(0, 1, i, 0))) << i;
  }
}

// The weights of the key at an offset of −query … size − 1 − query along one axis, from the definition.
std::vector<double> axis_weights(Int size, double alpha, double center) {
  std::vector<double> w(static_cast<std::size_t>(size * size));
  for (Int i = 0; i < size; ++i) {
    double sum = 0, most = -HUGE_VAL;
    const auto score = [&](Int j) { return -alpha * (double(j - i) - 2 * center) * double(j - i); };
    for (Int j = 0; j < size; ++j) most = std::max(most, score(j));
    for (Int j = 0; j < size; ++j) sum += w[static_cast<std::size_t>(i * size + j)] = std::exp(score(j) - most);
    for (Int j = 0; j < size; ++j) w[static_cast<std::size_t>(i * size + j)] /= sum;
  }
  return w;
}

// out = Wr (Wc x), or with the transposes, of one batch and head.
Array two_sums(const Array& x, Int b, Int h, Int rows, Int cols, const std::vector<double>& row,
               const std::vector<double>& col, bool transposed) {
  const Int dim = x.shape[3];
  const auto weight = [&](const std::vector<double>& w, Int size, Int to, Int from) {
    return w[static_cast<std::size_t>(transposed ? from * size + to : to * size + from)];
  };
  Array half({1, 1, rows * cols, dim}), out({1, 1, rows * cols, dim});
  for (Int r = 0; r < rows; ++r)
    for (Int c = 0; c < cols; ++c)
      for (Int k = 0; k < cols; ++k)
        for (Int d = 0; d < dim; ++d)
          half.at(0, 0, r * cols + c, d) += weight(col, cols, c, k) * x.at(b, h, r * cols + k, d);
  for (Int r = 0; r < rows; ++r)
    for (Int k = 0; k < rows; ++k)
      for (Int n = 0; n < cols; ++n)
        for (Int d = 0; d < dim; ++d)
          out.at(0, 0, r * cols + n, d) += weight(row, rows, r, k) * half.at(0, 0, k * cols + n, d);
  return out;
}

// Too many pairs for the oracle: the outputs and the gradients of values as two sums, those of parameters as the slope of
// Σ out∘grad_out.
TEST_P(GridPasses, LargeGrids) {
  for (const Grid& g : {Grid{32, 32, {100}, 1, 1, 1, 1}, {64, 80, {12}, 1, 1, 1, 1}, {128, 128, {6}, 1, 1, 1, 1}}) {
    SCOPED_TRACE(testing::Message() << g.rows << "×" << g.cols);
    Case c = case_of(g, GetParam());
    const double alpha = 0.0625, y = 1.5, x = -0.75;
    c.problem.parameters["alpha"].data = {alpha};
    c.problem.parameters["center"].data = {y, x};
    support::Call call(c);
    const support::ForwardResult got = call.forward();
    const support::BackwardResult gradients = call.backward({.saved = false});
    EXPECT_EQ(got.damage + gradients.damage, "");
    const auto out_at = [&](double a, double row_center, double col_center, bool transposed, const Array& from) {
      return two_sums(from, 0, 0, g.rows, g.cols, axis_weights(g.rows, a, row_center),
                      axis_weights(g.cols, a, col_center), transposed);
    };
    const double allowed = support::rounding_of(GetParam()) * 8;
    EXPECT_TRUE(support::agree(got.out[0], out_at(alpha, y, x, false, c.problem.v[0]), allowed, 1));
    EXPECT_TRUE(support::agree(gradients.gradients.v[0], out_at(alpha, y, x, true, c.grad_out[0]), allowed, 1));

    const auto loss = [&](double a, double row_center, double col_center) {
      const Array out = out_at(a, row_center, col_center, false, c.problem.v[0]);
      double sum = 0;
      for (std::size_t n = 0; n < out.data.size(); ++n) sum += out.data[n] * c.grad_out[0].data[n];
      return sum;
    };
    const double step = 1e-4;
    const double slopes[] = {(loss(alpha + step, y, x) - loss(alpha - step, y, x)) / (2 * step),
                             (loss(alpha, y + step, x) - loss(alpha, y - step, x)) / (2 * step),
                             (loss(alpha, y, x + step) - loss(alpha, y, x - step)) / (2 * step)};
    const double of_parameters[] = {gradients.gradients.parameters.at("alpha").data[0],
                                    gradients.gradients.parameters.at("center").data[0],
                                    gradients.gradients.parameters.at("center").data[1]};
    for (int n = 0; n < 3; ++n)
      EXPECT_NEAR(of_parameters[n], slopes[n],
                  (allowed + 1e-5) * std::sqrt(double(g.rows * g.cols)) * (n == 0 ? 100 : 10))
          << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GridPasses, testing::Values(rapt::Dtype::f32, rapt::Dtype::bf16, rapt::Dtype::f16),
                         [](const testing::TestParamInfo<rapt::Dtype>& type) { return support::label(type.param); });

}  // namespace
