// Formulas in f32, bf16 and f16 on the device that RAPT_TEST_DEVICE names, against the reference in f64 on the same numbers:
// outputs and all gradients.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "formulas/array.h"
#include "rapt/attend.h"
#include "rapt/error.h"
#include "rapt/formula.h"
#include "support/device.h"
#include "support/storage.h"

namespace {

using trees::Array;

struct Case {
  const char* score;
  rapt::FormulaOptions options;
  double slack = 1;  // of the bounds, where a place in a table may round to its neighbour
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"raw*scale - m*abs(i-j)", {.pair = "", .visible = "j <= i"}},
      {"", {.pair = "", .visible = "j <= i"}},
      {"", {.pair = "", .visible = "-7 <= j - i < 20"}},
      {"", {.pair = "", .visible = "j < i or i == 0"}},
      {"raw*scale - a*log(1 + exp(b)*abs(i-j))", {.pair = "", .visible = "j <= i"}},
      {"raw*scale - exp(a)*abs(i-j)^(1 + tanh(b))", {}},
      {"raw*scale + cos(i-j) + cos((i-j)/10) + a*cos((i-j)/100) + sin(m*(i-j))", {.pair = "", .visible = "j <= i"}},
      {"5*tanh(raw*scale/5)", {.pair = "", .visible = "j <= i and (i-j < 16 or j < 4)"}},
      {"raw*scale - (j-i)^2/(2*(1+b)^2)", {}},
      {"raw*scale + t[clip(j-i, -8, 8) + 8]", {}},
      {"raw*scale*sigmoid(a) + t[clip(j-i, -8, 8) + 8]*b", {.pair = "", .visible = "t[clip(j-i, -8, 8) + 8] < 0.9"}},
      {"raw*scale", {.pair = "", .visible = "document[i] == document[j] and j <= i"}},
      {"raw*scale + f[clip(floor(30.7*log(1 + abs(i-j))/log(1 + max(i, 20))), 0, 31)]", {}, 30},
      {"raw*scale + u[batch, j]*a + where(head == 1, m, 0)*min(raw, 1)", {}},
      {"raw*scale*(1 + g[j]) + g[i]*sin(g[j]) + where(u[batch, j] > 0, h[0, clip(i*3 + j*5, 0, 60)], raw*h[batch, j])",
       {}},
      {"10*tanh(raw*scale + sqrt(abs(r[clip(j*j/8, 0, 69)])))", {}},
      {"-alpha*((row - 2*center[0])*row + (col - 2*center[1])*col)/20", {}},
      {"raw*scale - alpha*abs(row) - abs(col)/4", {.pair = "", .visible = "row^2 + col^2 <= 17"}},
      {"raw", {.pair = "w*tanh(q+k)", .visible = ""}},
      {"-gamma*raw", {.pair = "(q-k)^2/8", .visible = "j <= i + 3"}},
      {"log(raw*scale*(1 + erf(raw*scale/sqrt(2)))/2 + 1 + abs(b))", {}},
  };
  return all;
}

struct Sizes {
  std::int64_t batch = 2, heads = 2, queries = 70, keys = 70, dim = 16;
};

using Results = std::vector<std::pair<std::string, std::vector<double>>>;

// numbers: of every input, the same for all runs.
Results run(const Case& c, const Sizes& s, rapt::Dtype dtype, rapt::Dtype rounded, const rapt::Device& device,
            rapt::Path path, bool table_gradients) {
  std::mt19937 random(77);
  std::normal_distribution<double> normal;
  const auto draw = [&](const rapt::Shape& shape, double scale, rapt::Dtype type) {
    std::vector<double> x(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
    for (double& n : x) n = support::round_to(rounded, normal(random) * scale);
    return Array(type, shape, device, std::move(x));
  };
  const rapt::Shape qs{s.batch, s.heads, s.queries, s.dim}, ks{s.batch, s.heads, s.keys, s.dim};
  Array q = draw(qs, 1, dtype), k = draw(ks, 1, dtype), v = draw(ks, 1, dtype), grad = draw(qs, 1, dtype);
  Array out(dtype, qs, device, {}), dq(dtype, qs, device, {}), dk(dtype, ks, device, {}), dv(dtype, ks, device, {});
  const rapt::Dtype own = dtype == rapt::Dtype::f64 ? dtype : rapt::Dtype::f32;
  Array lse(own, {s.batch, s.heads, s.queries, 1}, device, {});
  rapt::AttendOptions options;
  options.path = path;
  options.score = rapt::formula(c.score, c.options);
  if (options.score.mechanism->grid()) options.score.grid = {s.keys / 10, 10};
  std::vector<std::pair<Array, Array>> parameters;
  rapt::Gradients gradients;
  for (const rapt::ParameterSpec& spec : options.score.mechanism->parameters()) {
    const std::string name(spec.name);
    rapt::Shape shape{1, 1, 1, spec.rank() == 0 ? s.heads : 1};
    if (spec.role == rapt::Role::pair_weight) shape = {1, 1, 1, s.dim};
    else if (spec.rank() == 1) shape = {1, 1, s.heads, spec.sizes[0] > 0 ? spec.sizes[0] : (name == "t" ? 17 : s.keys)};
    else if (spec.rank() == 2) shape = {1, 1, s.batch, s.keys};
    Array value = draw(shape, 0.4, own);
    if (name == "document")
      for (std::size_t n = 0; n < value.values.size(); ++n)
        value.values[n] = static_cast<double>(n % static_cast<std::size_t>(s.keys) / 23);
    if (name == "f")
      for (std::size_t n = 0; n < value.values.size(); ++n)
        value.values[n] = 0.3 * std::sin(0.01 * static_cast<double>(n));
    for (double& x : value.values) x = support::round_to(rapt::Dtype::f32, x);
    value = Array(own, shape, device, value.values);
    parameters.emplace_back(std::move(value), Array(own, shape, device, {}));
  }
  std::size_t place = 0;
  for (const rapt::ParameterSpec& spec : options.score.mechanism->parameters()) {
    auto& [value, slope] = parameters[place++];
    options.score.parameters.push_back({std::string(spec.name), value.view()});
    if (table_gradients || spec.role != rapt::Role::table)
      gradients.parameters.push_back({std::string(spec.name), slope.view()});
  }
  const rapt::Inputs inputs{q.view(), k.view(), {v.view()}};
  rapt::Saved saved;
  rapt::Outputs outputs;
  outputs.out = {out.view()};
  outputs.lse = lse.view();
  outputs.saved = &saved;
  rapt::attend(inputs, outputs, options);
  gradients.q = dq.view();
  gradients.k = dk.view();
  gradients.v = {dv.view()};
  rapt::attend_backward(inputs, {out.view()}, {grad.view()}, &saved, gradients, options);
  Results results{{"out", out.read()}, {"lse", lse.read()}, {"dq", dq.read()}, {"dk", dk.read()}, {"dv", dv.read()}};
  place = 0;
  for (const rapt::ParameterSpec& spec : options.score.mechanism->parameters()) {
    Array& slope = parameters[place++].second;
    if (table_gradients || spec.role != rapt::Role::table) results.emplace_back(spec.name, slope.read());
  }
  return results;
}

void compare(const Case& c, const Sizes& s, rapt::Dtype dtype) {
  SCOPED_TRACE(std::string(c.score) + "; " + c.options.pair + "; " + c.options.visible + ", " + support::label(dtype) +
               ", D " + std::to_string(s.dim));
  const Results got = run(c, s, dtype, dtype, support::test_device(), rapt::Path::automatic, true);
  const Results expected = run(c, s, rapt::Dtype::f64, dtype, {}, rapt::Path::reference, true);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t n = 0; n < got.size(); ++n) {
    const auto& [name, x] = got[n];
    const std::vector<double>& y = expected[n].second;
    ASSERT_EQ(x.size(), y.size()) << name;
    double largest = 1;
    for (const double value : y)
      if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    const bool rounded = dtype != rapt::Dtype::f32;
    double tolerance = c.slack * largest * (rounded ? 2e-2 : (name == "out" || name == "lse" ? 2e-5 : 2e-4));
    // A number of a head sums what rounded weights leave of every row: at S 300 and D 128 PyTorch's own bf16 is off by 0.27.
    if (rounded && s.queries >= 300 && y.size() <= static_cast<std::size_t>(s.heads))
      tolerance = std::max(tolerance, 0.27);
    for (std::size_t m = 0; m < x.size(); ++m) {
      if (x[m] == y[m] || (std::isnan(x[m]) && std::isnan(y[m]))) continue;
      ASSERT_NEAR(x[m], y[m], tolerance) << name << "[" << m << "]";
    }
  }
}

// One test per formula, so that a device compiles each once.
class DeviceFormulas : public testing::TestWithParam<std::size_t> {};

TEST_P(DeviceFormulas, AreTheReference) {
  const Case& c = cases()[GetParam()];
  compare(c, {}, rapt::Dtype::f32);
  compare(c, {}, rapt::Dtype::bf16);
  // Rows that the tensor cores take, whole tiles and parts of them.
  compare(c, {.batch = 1, .queries = 300, .keys = 300, .dim = 64}, rapt::Dtype::bf16);
  if (GetParam() % 4 != 0) return;
  compare(c, {.queries = 70, .keys = 130, .dim = 64}, rapt::Dtype::f16);
  compare(c, {.batch = 1, .queries = 300, .keys = 300, .dim = 128}, rapt::Dtype::bf16);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceFormulas, testing::Range<std::size_t>(0, 21));

TEST(DeviceFormula, CasesAreAllRun) { EXPECT_EQ(cases().size(), 21u); }

TEST(DeviceFormula, ThatCannotBeAnsweredAreNaN) {
  Sizes s;
  const Case c{"raw*scale", {.pair = "", .visible = "document[i + 20] == document[j] and j <= i"}};
  const Results got =
      run(c, s, rapt::Dtype::f32, rapt::Dtype::f32, support::test_device(), rapt::Path::automatic, false);
  for (std::int64_t i = 0; i < s.queries; ++i)
    EXPECT_EQ(std::isnan(got[0].second[static_cast<std::size_t>(i * s.dim)]), i + 20 >= s.keys) << i;
}

// On the tensor cores, where its numbers are added up over blocks: the same bits in every run.
TEST(DeviceFormula, HasTheSameBitsInEveryRun) {
  const Sizes s{.batch = 1, .queries = 130, .keys = 130, .dim = 64};
  const auto once = [&] {
    return run({"raw*scale - m*abs(i-j)", {.pair = "", .visible = "j <= i"}}, s, rapt::Dtype::bf16, rapt::Dtype::bf16,
               support::test_device(), rapt::Path::automatic, true);
  };
  const Results first = once();
  for (int n = 0; n < (support::on_cpu() ? 2 : 1000); ++n) ASSERT_EQ(once(), first) << n;
}

// Many pairs for each number of a table, and many numbers that few pairs read: the same bits in every run.
TEST(DeviceFormula, GradientsOfTablesHaveTheSameBitsInEveryRun) {
  const Sizes s{.batch = 2, .queries = 200, .keys = 200};
  for (const char* score : {"raw*scale + f[clip(floor(30.7*log(1 + abs(i-j))/log(1 + max(i, 20))), 0, 31)]",
                            "raw*scale + u[batch, clip(i + 3*j - 2*i, 0, 199)]*a + sin(u[batch, j])",
                            "raw*scale + f[clip(i*7 + j, 0, 199)] - f[j]*raw"}) {
    const auto once = [&] {
      return run({score, {}}, s, rapt::Dtype::f32, rapt::Dtype::f32, support::test_device(), rapt::Path::automatic,
                 true);
    };
    const Results first = once();
    for (int n = 0; n < (support::on_cpu() ? 2 : 100); ++n) ASSERT_EQ(once(), first) << score;
  }
}

}  // namespace
