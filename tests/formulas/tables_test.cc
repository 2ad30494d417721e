// Tables that a formula reads at places of its own: large ones, whose gradients are summed in place.

#include <gtest/gtest.h>

#include <cmath>

#include "rapt/attend.h"
#include "rapt/formula.h"

namespace {

constexpr std::int64_t kHeads = 3, kRows = 300, kDim = 4, kTable = 70000;

std::vector<double> gradient(std::int64_t size, rapt::Path path, int threads) {
  std::vector<double> x, table, grad(static_cast<std::size_t>(kHeads * size)), out(kHeads * kRows * kDim);
  for (std::int64_t n = 0; n < kHeads * kRows * kDim; ++n) x.push_back(std::sin(static_cast<double>(n)));
  for (std::int64_t n = 0; n < kHeads * size; ++n) table.push_back(std::cos(static_cast<double>(n)));
  rapt::AttendOptions options;
  options.path = path;
  options.threads = threads;
  options.score = rapt::formula("raw*scale + t[i*200 + j*3 + 1]");
  options.score.parameters = {{"t", rapt::view(static_cast<const double*>(table.data()), {kHeads, size})}};
  const rapt::Shape shape{1, kHeads, kRows, kDim};
  const rapt::ConstView v = rapt::view(static_cast<const double*>(x.data()), shape);
  const rapt::Inputs inputs{v, v, {v}};
  rapt::Saved saved;
  rapt::Outputs outputs;
  outputs.out = {rapt::view(out.data(), shape)};
  outputs.saved = &saved;
  rapt::attend(inputs, outputs, options);
  rapt::Gradients gradients;
  gradients.parameters = {{"t", rapt::view(grad.data(), {kHeads, size})}};
  rapt::attend_backward(inputs, {outputs.out[0]}, {v}, &saved, gradients, options);
  return grad;
}

TEST(FormulaTables, OfAnySizeHaveTheReferencesGradientOnAnyThreads) {
  for (const std::int64_t size : {std::int64_t{61000}, kTable}) {
    const std::vector<double> expected = gradient(size, rapt::Path::reference, 1),
                              one = gradient(size, rapt::Path::automatic, 1);
    double largest = 0;
    for (std::size_t n = 0; n < one.size(); ++n) {
      largest = std::fmax(largest, std::fabs(expected[n]));
      ASSERT_NEAR(one[n], expected[n], 1e-12) << n;
    }
    EXPECT_GT(largest, 1e-6);
    for (const int threads : {2, 4}) EXPECT_EQ(gradient(size, rapt::Path::automatic, threads), one);
  }
}

// Lines of keys, queries and offsets give their memory to those that come after them; every number stays what it is.
TEST(FormulaTables, OfManyPartsHaveTheReferencesValues) {
  std::string text = "raw*scale";
  for (int n = 0; n < 40; ++n) {
    const std::string x = std::to_string(n + 2);
    text += " + f[" + std::to_string(n) + "]*cos((i-j)/" + x + ")*0.1";
    if (n % 8 == 0) text += " - a*sin(j/" + x + ")*b*cos(i/" + x + ") + sqrt(abs(i-j) + a*a)*0.01";
  }
  std::vector<double> x, f, a{0.5, 0.25, 0.75}, b{0.1, 0.2, 0.3};
  for (std::int64_t n = 0; n < kHeads * kRows * kDim; ++n) x.push_back(std::sin(static_cast<double>(n)));
  for (std::int64_t n = 0; n < kHeads * 40; ++n) f.push_back(std::cos(static_cast<double>(n)));
  const rapt::Shape shape{1, kHeads, kRows, kDim};
  const auto run = [&](rapt::Path path) {
    rapt::AttendOptions options;
    options.path = path;
    options.score = rapt::formula(text);
    const auto in = [](const std::vector<double>& y, std::vector<std::int64_t> sizes) {
      return rapt::view(static_cast<const double*>(y.data()), sizes);
    };
    options.score.parameters = {{"f", in(f, {kHeads, 40})}, {"a", in(a, {kHeads})}, {"b", in(b, {kHeads})}};
    std::vector<std::vector<double>> all{std::vector<double>(x.size()), std::vector<double>(x.size()),
                                         std::vector<double>(f.size()), std::vector<double>(3), std::vector<double>(3)};
    const rapt::ConstView v = rapt::view(static_cast<const double*>(x.data()), shape);
    const rapt::Inputs inputs{v, v, {v}};
    rapt::Saved saved;
    rapt::Outputs outputs;
    outputs.out = {rapt::view(all[0].data(), shape)};
    outputs.saved = &saved;
    rapt::attend(inputs, outputs, options);
    rapt::Gradients gradients;
    gradients.q = rapt::view(all[1].data(), shape);
    gradients.parameters = {{"f", rapt::view(all[2].data(), {kHeads, 40})},
                            {"a", rapt::view(all[3].data(), {kHeads})},
                            {"b", rapt::view(all[4].data(), {kHeads})}};
    rapt::attend_backward(inputs, {outputs.out[0]}, {v}, &saved, gradients, options);
    return all;
  };
  const auto got = run(rapt::Path::automatic), expected = run(rapt::Path::reference);
  for (std::size_t n = 0; n < got.size(); ++n)
    for (std::size_t m = 0; m < got[n].size(); ++m)
      ASSERT_NEAR(got[n][m], expected[n][m], 1e-10 * (1 + std::fabs(expected[n][m]))) << n << ", " << m;
}

}  // namespace
