// Tables that a formula reads at its own indices: large ones, whose gradients are summed in place.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "rapt/attend.h"
#include "rapt/error.h"
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

// The logarithm of the sum over the keys of one query at `first`, or what the call is refused with.
struct OneRow {
  double lse = 0;
  std::string error;
};

template <class T>
OneRow one_row(const std::string& score, const std::string& visible, std::int64_t first, std::int64_t keys,
               const std::vector<std::int64_t>& sizes, rapt::Path path = rapt::Path::automatic) {
  std::int64_t count = 1;
  for (const std::int64_t n : sizes) count *= n;
  std::vector<T> x(static_cast<std::size_t>(keys), T(0)), table(static_cast<std::size_t>(count));
  for (std::size_t n = 0; n < table.size(); ++n) table[n] = static_cast<T>(n % 2 + (n % 7) * 0.25);
  T out = 0, lse = 0;
  const rapt::ConstView row = rapt::view(static_cast<const T*>(x.data()), {1, 1, keys, 1}),
                        query = rapt::view(static_cast<const T*>(x.data()), {1, 1, 1, 1});
  rapt::AttendOptions options;
  options.score = rapt::formula(score, {.visible = visible});
  if (!sizes.empty()) options.score.parameters = {{"t", rapt::view(static_cast<const T*>(table.data()), sizes)}};
  options.first_query = {first};
  options.path = path;
  rapt::Outputs outputs;
  outputs.out = {rapt::view(&out, {1, 1, 1, 1})};
  outputs.lse = rapt::view(&lse, {1, 1, 1, 1});
  try {
    rapt::attend(rapt::Inputs{query, row, {row}}, outputs, options);
  } catch (const rapt::Error& error) {
    return {0, error.what()};
  }
  return {static_cast<double>(lse), ""};
}

// f32 has no odd numbers above 2^24: an index there would read its neighbour's number.
TEST(FormulaTables, AreRefusedWhereIndicesAreNotExact) {
  const float one = 1;
  float out = 0;
  rapt::ConstView large = rapt::view(&one, {1, 1, 1, 1});
  large.shape[3] = 20499099;
  large.strides[3] = 0;
  const rapt::ConstView x = rapt::view(&one, {1, 1, 1, 1});
  rapt::AttendOptions options;
  options.score = rapt::formula("0*raw + t[i*4099 + j]");
  options.score.parameters = {{"t", large}};
  options.first_query = {5000};
  try {
    rapt::attend(x, x, x, rapt::view(&out, {1, 1, 1, 1}), options);
    ADD_FAILURE();
  } catch (const rapt::Error& error) {
    EXPECT_STREQ(error.what(),
                 "attend: score formula: parameter 't': expected at most 16777216 numbers in a dimension outside f64, "
                 "which indices are exact for, got 20499099; t[x,y] takes an index in two parts");
  }
  // A smaller table, and larger numbers on the way to its index.
  const char* const sum = "0*raw + t[(i*4099 + j) - 20495000]";
  for (const rapt::Path path : {rapt::Path::automatic, rapt::Path::reference})
    EXPECT_EQ(one_row<float>(sum, "", 5000, 4099, {4099}, path).error,
              "attend: score formula: expected an index of 't' from whole numbers within ±16777216, which are exact "
              "outside f64, got one from numbers up to 20499098; t[x,y] takes it in two parts");
  double expected = 0;
  for (std::int64_t n = 0; n < 4099; ++n)
    expected += std::exp(static_cast<double>(n % 2) + 0.25 * static_cast<double>(n % 7));
  EXPECT_NEAR(one_row<double>(sum, "", 5000, 4099, {4099}).lse, std::log(expected), 1e-12);
  EXPECT_NEAR(one_row<float>("0*raw + t[(i - 5000)*4099 + j]", "", 5000, 4099, {4099}).lse, std::log(expected), 1e-5);
  EXPECT_NEAR(one_row<float>("0*raw + t[i - 5000, j]", "", 5000, 4099, {1, 4099}).lse, std::log(expected), 1e-5);
  EXPECT_EQ(one_row<float>("raw", "i*4099 + j != 20495001", 5000, 4099, {}).error,
            "attend: score formula: expected comparisons of whole numbers within ±16777216, which are exact outside "
            "f64, got them of numbers up to 20499098");
  EXPECT_NEAR(one_row<double>("raw", "i*4099 + j != 20495001", 5000, 4099, {}).lse, std::log(4098.0), 1e-12);
  // Infinity is outside every table, whatever is added to it.
  EXPECT_NEAR(one_row<float>("0*raw + t[(i - 5000)*4099 + where(j < 4099, j, inf)]", "", 5000, 4099, {4099}).lse,
              std::log(expected), 1e-5);
  EXPECT_TRUE(std::isnan(one_row<float>("0*raw + t[where(j < 7, j, inf) + 1]", "", 5000, 9, {9}).lse));
  // What is too large to be exact is too large for the choice, too.
  for (const char* text : {"t[min(j*j, 100)]", "t[clip(j*j - 7, 0, 100)]", "t[clip(floor(j*j/4099) - 2, 0, 100)]",
                           "t[clip(8*log(1 + 0.5*j*j), 0, 100)]", "where((i-j)^2/18 < 8, t[min(j, 100)], 1)"}) {
    const OneRow exact = one_row<double>(text, "(i - j)^2 < 16000000 and j*j + i*i > 9", 5000, 4999, {101}),
                 coarse = one_row<float>(text, "(i - j)^2 < 16000000 and j*j + i*i > 9", 5000, 4999, {101});
    EXPECT_EQ(exact.error, "") << text;
    EXPECT_EQ(coarse.error, "") << text;
    EXPECT_NEAR(coarse.lse, exact.lse, 1e-5) << text;
  }
}

// Integers made of positions, as text.
std::string whole_text(std::mt19937& random, int depth) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  if (depth == 0) {
    static constexpr std::array kLarge{"4099", "64", "3", "1000", "20495000", "16777217", "7", "2"};
    static constexpr std::array kLeaves{"i", "j", "(j-i)", "i", "j"};
    return below(2) == 0 ? kLarge[static_cast<std::size_t>(below(8))] : kLeaves[static_cast<std::size_t>(below(5))];
  }
  const auto part = [&] { return whole_text(random, depth - 1 - below(2) * (depth > 1 ? 1 : 0)); };
  switch (below(9)) {
    case 0: return "min(" + part() + ", " + part() + ")";
    case 1: return "max(" + part() + ", " + part() + ")";
    case 2: return "abs(" + part() + ")";
    case 3: return "floor(" + part() + "/" + (below(2) == 0 ? "8" : "4099") + ")";
    case 4: return "where(" + part() + " < " + part() + ", " + part() + ", " + (below(3) == 0 ? "inf" : part()) + ")";
    case 5: return "(" + part() + ")*(" + part() + ")";
    case 6: return "(" + part() + " + " + part() + ")";
    default: return "(" + part() + " - " + part() + ")";
  }
}

// Whatever f32 does not refuse reads the numbers that f64 reads.
TEST(FormulaTables, OfIndicesThatAreNotRefusedReadTheNumbersOfF64) {
  std::mt19937 random(5);
  int read = 0, refused = 0;
  for (int n = 0; n < 4000; ++n) {
    const std::string index = whole_text(random, 1 + n % 4);
    const std::string score = n % 4 == 0 ? "where(" + index + " == " + whole_text(random, 1 + n % 3) + ", 1, t[3])"
                                         : "where(i < 0, t[2], t[clip(" + index + ", 0, 60)])";
    const std::int64_t first = std::array<std::int64_t, 4>{3, 5000, 100003, 16777200}[random() % 4];
    const OneRow exact = one_row<double>(score, "", first, 11, {64});
    if (!exact.error.empty()) continue;
    const OneRow coarse = one_row<float>(score, "", first, 11, {64});
    if (!coarse.error.empty()) {
      EXPECT_NE(coarse.error.find("within ±16777216"), std::string::npos) << coarse.error;
      ++refused;
      continue;
    }
    ++read;
    if (std::isnan(exact.lse)) EXPECT_TRUE(std::isnan(coarse.lse)) << score << " at " << first;
    else EXPECT_NEAR(coarse.lse, exact.lse, 1e-5) << score << " at " << first;
  }
  EXPECT_GT(read, 500);
  EXPECT_GT(refused, 50);
}

}  // namespace
