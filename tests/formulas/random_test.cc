// Random formulas against an evaluation in double that shares no code with the library: outputs, and gradients against
// finite differences.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "formulas/array.h"
#include "formulas/tree.h"
#include "rapt/attend.h"
#include "rapt/formula.h"
#include "rapt/threads.h"

namespace {

using trees::Maker;
using trees::Numbers;
using trees::Pair;
using trees::Tree;

constexpr std::int64_t kTable = 7, kRows = 3, kCols = 5;

struct Formula {
  Tree score;
  std::optional<Tree> pair, visible;
};

struct Sizes {
  std::int64_t batch = 2, heads = 2, queries = 5, keys = 7, dim = 3, value_dim = 2, first_query = 0;
  std::int64_t columns = 1;  // of the grid that the keys are

  void set_grid(std::int64_t rows, std::int64_t cols) {
    keys = rows * cols;
    columns = cols;
    queries = std::min(queries, keys - first_query);
  }
  // Where a pair stands, with what all pairs share.
  Pair pair(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, bool product) const {
    const std::int64_t at = i + first_query;
    return {.scale = product ? 1 / std::sqrt(static_cast<double>(dim)) : 1,
            .i = at,
            .j = j,
            .head = h,
            .batch = b,
            .queries = queries,
            .keys = keys,
            .row = j / columns - at / columns,
            .col = j % columns - at % columns};
  }
};

struct Toy {
  Sizes s;
  std::vector<double> q, k, v, w, grad_out;
  std::map<std::string, Numbers> parameters;

  Toy(const Sizes& sizes, unsigned seed) : s(sizes) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    const auto fill = [&](std::vector<double>& x, std::int64_t count) {
      for (std::int64_t n = 0; n < count; ++n) x.push_back(normal(random));
    };
    fill(q, s.batch * s.heads * s.queries * s.dim);
    fill(k, s.batch * s.heads * s.keys * s.dim);
    fill(v, s.batch * s.heads * s.keys * s.value_dim);
    fill(w, s.dim);
    fill(grad_out, s.batch * s.heads * s.queries * s.value_dim);
    parameters["a"] = {{}, false, {}};
    parameters["b"] = {{}, true, {}};
    parameters["t"] = {{kTable}, seed % 2 == 0, {}};
    parameters["u"] = {{kRows, kCols}, seed % 3 == 0, {}};
    for (auto& [name, p] : parameters) fill(p.data, p.size() * (p.per_head ? s.heads : 1));
  }

  // [B,H,Sq,Dv]; empty: a score is not finite or too large to differentiate well.
  std::vector<double> attend(const Formula& f) const {
    std::vector<double> out;
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t h = 0; h < s.heads; ++h)
        for (std::int64_t i = 0; i < s.queries; ++i) {
          std::vector<double> scores, sum(static_cast<std::size_t>(s.value_dim));
          double max = -HUGE_VAL, total = 0;
          for (std::int64_t j = 0; j < s.keys; ++j) {
            Pair p = s.pair(b, h, i, j, !f.pair);
            p.parameters = &parameters;
            for (std::int64_t d = 0; d < s.dim; ++d) {
              p.q = q[static_cast<std::size_t>(((b * s.heads + h) * s.queries + i) * s.dim + d)];
              p.k = k[static_cast<std::size_t>(((b * s.heads + h) * s.keys + j) * s.dim + d)];
              p.w = w[static_cast<std::size_t>(d)];
              p.raw += f.pair ? trees::evaluate(*f.pair, p) : p.q * p.k;
            }
            const bool hidden = f.visible && trees::evaluate(*f.visible, p) == 0;
            scores.push_back(hidden ? -HUGE_VAL : trees::evaluate(f.score, p));
            if (!hidden && !(std::fabs(scores.back()) < 30)) return {};
            max = std::fmax(max, scores.back());
          }
          for (std::int64_t j = 0; j < s.keys && max > -HUGE_VAL; ++j) {
            const double weight = std::exp(scores[static_cast<std::size_t>(j)] - max);
            total += weight;
            for (std::int64_t d = 0; d < s.value_dim; ++d)
              sum[static_cast<std::size_t>(d)] +=
                  weight * v[static_cast<std::size_t>(((b * s.heads + h) * s.keys + j) * s.value_dim + d)];
          }
          for (const double x : sum) out.push_back(total == 0 ? 0 : x / total);
        }
    return out;
  }

  double loss(const Formula& f) const {
    const std::vector<double> out = attend(f);
    double sum = out.empty() ? NAN : 0;
    for (std::size_t n = 0; n < out.size(); ++n) sum += out[n] * grad_out[n];
    return sum;
  }
};

// The library's result for the same.
struct Result {
  std::vector<double> out, dq, dk, dv, dw;
  std::map<std::string, std::vector<double>> dp;
};

Result run(const Toy& toy, const Formula& f, rapt::Path path, int threads) {
  const Sizes& s = toy.s;
  Result r;
  rapt::AttendOptions options;
  options.path = path;
  options.threads = threads;
  options.first_query = {s.first_query};
  rapt::FormulaOptions texts;
  if (f.pair) texts.pair = trees::text(*f.pair);
  if (f.visible) texts.visible = trees::text(*f.visible);
  options.score = rapt::formula(trees::text(f.score), texts);
  if (options.score.mechanism->grid()) options.score.grid = {s.keys / s.columns, s.columns};
  rapt::Gradients gradients;
  for (const rapt::ParameterSpec& spec : options.score.mechanism->parameters()) {
    const std::string name(spec.name);
    std::vector<std::int64_t> shape{s.dim};
    const double* data = toy.w.data();
    if (name != "w") {
      const Numbers& p = toy.parameters.at(name);
      shape = p.sizes;
      shape.insert(shape.begin(), p.per_head ? s.heads : 1);
      data = p.data.data();
      // A table that is only read at fixed places is as large as they say.
      if (spec.role == rapt::Role::value || spec.role == rapt::Role::table)
        for (std::size_t n = 0; n < p.sizes.size(); ++n)
          if (spec.sizes[n] > 0 && spec.sizes[n] != p.sizes[n]) return {};
    }
    std::vector<double>& grad = name == "w" ? r.dw : r.dp[name];
    std::int64_t count = 1;
    for (const std::int64_t n : shape) count *= n;
    grad.assign(static_cast<std::size_t>(count), -77);
    options.score.parameters.push_back({name, rapt::view(data, shape)});
    gradients.parameters.push_back({name, rapt::view(grad.data(), shape)});
  }
  r.out.resize(toy.grad_out.size());
  r.dq.resize(toy.q.size());
  r.dk.resize(toy.k.size());
  r.dv.resize(toy.v.size());
  const rapt::Shape q{s.batch, s.heads, s.queries, s.dim}, k{s.batch, s.heads, s.keys, s.dim},
      v{s.batch, s.heads, s.keys, s.value_dim}, o{s.batch, s.heads, s.queries, s.value_dim};
  const auto in = [](const std::vector<double>& x, const rapt::Shape& shape) { return rapt::view(x.data(), shape); };
  const auto out = [](std::vector<double>& x, const rapt::Shape& shape) { return rapt::view(x.data(), shape); };
  const rapt::Inputs inputs{in(toy.q, q), in(toy.k, k), {in(toy.v, v)}};
  rapt::Outputs outputs;
  rapt::Saved saved;
  outputs.out = {out(r.out, o)};
  outputs.saved = &saved;
  rapt::attend(inputs, outputs, options);
  gradients.q = out(r.dq, q);
  gradients.k = out(r.dk, k);
  gradients.v = {out(r.dv, v)};
  rapt::attend_backward(inputs, {in(r.out, o)}, {in(toy.grad_out, o)}, &saved, gradients, options);
  return r;
}

std::string all_text(const Formula& f) {
  return trees::text(f.score) + (f.pair ? "\n pair " + trees::text(*f.pair) : "") +
         (f.visible ? "\n visible " + trees::text(*f.visible) : "");
}

// The slope of the loss in *x; none where the loss is not smooth there.
std::optional<double> slope(Toy& toy, const Formula& f, double* x) {
  const double kept = *x;
  const auto difference = [&](double step) {
    *x = kept + step;
    const double above = toy.loss(f);
    *x = kept - step;
    const double below = toy.loss(f);
    *x = kept;
    return (above - below) / (2 * step);
  };
  const double coarse = difference(1e-4), fine = difference(1e-5);
  if (!(std::fabs(coarse - fine) < 1e-4 * (1 + std::fabs(fine)))) return std::nullopt;
  return fine;
}

void compare_slopes(Toy& toy, const Formula& f, std::vector<double>& at, const std::vector<double>& got,
                    const char* what) {
  ASSERT_EQ(at.size(), got.size());
  for (std::size_t n = 0; n < at.size(); n += 1 + n % 3) {
    const std::optional<double> expected = slope(toy, f, &at[n]);
    if (!expected) continue;
    EXPECT_NEAR(got[n], *expected, 2e-5 * (1 + std::fabs(*expected))) << what << "[" << n << "] of " << all_text(f);
  }
}

TEST(RandomTrees, DrawEveryNameOfTheLanguage) {
  std::string scores, pairs, conditions;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Maker maker(seed, kTable, kRows, kCols);
    scores += trees::text(maker.score(4)) + " ";
    pairs += trees::text(maker.pair(4)) + " ";
    conditions += trees::text(maker.visible(3)) + " ";
  }
  for (const char* name :
       {"raw",   "row",  "col",   "head",   "batch", "queries", "keys",  "t[",    "u[",       "where(", "min(", "max(",
        "clip(", "abs(", "sign(", "floor(", "exp(",  "log(",    "sqrt(", "tanh(", "sigmoid(", "erf(",   "sin(", "cos("})
    EXPECT_NE(scores.find(name), std::string::npos) << name;
  for (const char* name : {"q", "k", "w", "sign(", "floor(", "where("})
    EXPECT_NE(pairs.find(name), std::string::npos) << name;
  for (const char* name : {"row", "col", "sign(", "and", "or", "not", "!="})
    EXPECT_NE(conditions.find(name), std::string::npos) << name;
}

class RandomFormulas : public testing::TestWithParam<int> {};

TEST_P(RandomFormulas, HaveTheValuesAndSlopesOfAnEvaluationInDouble) {
  int checked = 0;
  for (int n = 0; checked < 12 && n < 200; ++n) {
    const auto seed = static_cast<unsigned>(GetParam() * 1000 + n);
    Maker maker(seed, kTable, kRows, kCols);
    Sizes sizes;
    sizes.queries = 1 + n % 9;
    sizes.first_query = n % 4 == 3 ? 2 : 0;
    sizes.set_grid(3 + n % 4, 1 + n % 3);
    Toy toy(sizes, seed);
    Formula f{.score = maker.score(1 + n % 4), .pair = std::nullopt, .visible = std::nullopt};
    if (n % 3 == 1 && trees::text(f.score).find("raw") != std::string::npos) f.pair = maker.pair(1 + n % 3);
    if (n % 2 == 1) f.visible = maker.visible(2);
    const std::vector<double> expected = toy.attend(f);
    if (expected.empty()) continue;
    for (const rapt::Path path : {rapt::Path::automatic, rapt::Path::reference}) {
      const Result r = run(toy, f, path, 1 + n % 3);
      if (r.out.empty()) continue;
      ++checked;
      for (std::size_t m = 0; m < expected.size(); ++m)
        ASSERT_NEAR(r.out[m], expected[m], 1e-9 * (1 + std::fabs(expected[m]))) << m << " of " << all_text(f);
      compare_slopes(toy, f, toy.q, r.dq, "q");
      compare_slopes(toy, f, toy.k, r.dk, "k");
      compare_slopes(toy, f, toy.v, r.dv, "v");
      if (!r.dw.empty()) compare_slopes(toy, f, toy.w, r.dw, "w");
      for (const auto& [name, grad] : r.dp) compare_slopes(toy, f, toy.parameters.at(name).data, grad, name.c_str());
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(checked, 5);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomFormulas, testing::Range(0, 40));

// The library on the problem's numbers, which a storage type holds; parameters and their gradients are f32.
Result run_stored(const Toy& toy, const Formula& f, rapt::Dtype dtype) {
  const Sizes& s = toy.s;
  rapt::AttendOptions options;
  options.first_query = {s.first_query};
  options.score = rapt::formula(trees::text(f.score), {.pair = f.pair ? trees::text(*f.pair) : "",
                                                       .visible = f.visible ? trees::text(*f.visible) : ""});
  if (options.score.mechanism->grid()) options.score.grid = {s.keys / s.columns, s.columns};
  std::vector<trees::Array> parameters, slopes;
  parameters.reserve(8);
  slopes.reserve(8);
  rapt::Gradients gradients;
  for (const rapt::ParameterSpec& spec : options.score.mechanism->parameters()) {
    const std::string name(spec.name);
    const Numbers own{{s.dim}, false, toy.w};
    const Numbers& p = name == "w" ? own : toy.parameters.at(name);
    rapt::Shape shape{1, 1, 1, 1};
    std::size_t last = 3;
    for (std::size_t n = p.sizes.size(); n-- > 0;) shape[last--] = p.sizes[n];
    if (p.per_head) shape[last] = s.heads;
    for (std::size_t n = 0; n < p.sizes.size() && name != "w"; ++n)
      if (spec.sizes[n] > 0 && spec.sizes[n] != p.sizes[n]) return {};
    parameters.emplace_back(rapt::Dtype::f32, shape, rapt::Device{}, p.data);
    options.score.parameters.push_back({name, parameters.back().view()});
    slopes.emplace_back(rapt::Dtype::f32, shape, rapt::Device{}, std::vector<double>{});
    gradients.parameters.push_back({name, slopes.back().view()});
  }
  const rapt::Shape q{s.batch, s.heads, s.queries, s.dim}, k{s.batch, s.heads, s.keys, s.dim},
      v{s.batch, s.heads, s.keys, s.value_dim}, o{s.batch, s.heads, s.queries, s.value_dim};
  const auto array = [&](const rapt::Shape& shape, const std::vector<double>& x) {
    return trees::Array(dtype, shape, {}, x);
  };
  trees::Array qa = array(q, toy.q), ka = array(k, toy.k), va = array(v, toy.v), ga = array(o, toy.grad_out),
               out = array(o, {}), dq = array(q, {}), dk = array(k, {}), dv = array(v, {});
  const rapt::Inputs inputs{qa.view(), ka.view(), {va.view()}};
  rapt::Saved saved;
  rapt::Outputs outputs;
  outputs.out = {out.view()};
  outputs.saved = &saved;
  rapt::attend(inputs, outputs, options);
  gradients.q = dq.view();
  gradients.k = dk.view();
  gradients.v = {dv.view()};
  rapt::attend_backward(inputs, {out.view()}, {ga.view()}, &saved, gradients, options);
  Result r{out.read(), dq.read(), dk.read(), dv.read(), {}, {}};
  for (std::size_t n = 0; n < slopes.size(); ++n) {
    const std::string& name = gradients.parameters[n].name;
    (name == "w" ? r.dw : r.dp[name]) = slopes[n].read();
  }
  return r;
}

// How far the scores of a row may be off, at most, in arithmetic that rounds by eps; none where a step is unsure.
std::optional<double> score_error(const Toy& toy, const Formula& f, double eps) {
  const Sizes& s = toy.s;
  double most = 0;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.queries; ++i)
        for (std::int64_t j = 0; j < s.keys; ++j) {
          Pair p = s.pair(b, h, i, j, !f.pair);
          p.parameters = &toy.parameters;
          double raw_error = 0, size = 0;
          bool unsure = false;
          for (std::int64_t d = 0; d < s.dim; ++d) {
            p.q = toy.q[static_cast<std::size_t>(((b * s.heads + h) * s.queries + i) * s.dim + d)];
            p.k = toy.k[static_cast<std::size_t>(((b * s.heads + h) * s.keys + j) * s.dim + d)];
            p.w = toy.w[static_cast<std::size_t>(d)];
            const trees::Bounded one =
                f.pair ? trees::bounded(*f.pair, p, eps, 0) : trees::Bounded{p.q * p.k, eps * std::fabs(p.q * p.k)};
            p.raw += one.value;
            raw_error += one.error;
            size += std::fabs(one.value);
            unsure = unsure || one.unsure;
          }
          raw_error += eps * size * static_cast<double>(s.dim);
          const trees::Bounded score = trees::bounded(f.score, p, eps, raw_error);
          const trees::Bounded seen = f.visible ? trees::bounded(*f.visible, p, eps, 0) : trees::Bounded{1, 0, false};
          if (unsure || score.unsure || seen.unsure) return std::nullopt;
          if (seen.value != 0) most = std::fmax(most, score.error);
        }
  return most;
}

// f32, bf16 and f16 against double on the same numbers. A score that is off by e moves a weight by e^2e at most, and what is
// rounded after that by its own last places.
class StoredFormulas : public testing::TestWithParam<int> {};

TEST_P(StoredFormulas, AreWithinTheBoundsOfTheirArithmetic) {
  int checked = 0, parameters = 0;
  for (int n = 0; (checked < 8 || parameters < 6) && n < 300; ++n) {
    const auto seed = static_cast<unsigned>(500000 + GetParam() * 1000 + n);
    static constexpr std::array kDtypes{rapt::Dtype::f32, rapt::Dtype::bf16, rapt::Dtype::f16};
    const rapt::Dtype dtype = kDtypes[static_cast<std::size_t>((n + GetParam()) % 3)];
    Maker maker(seed, kTable, kRows, kCols);
    Sizes sizes;
    sizes.queries = 3 + n % 9;
    sizes.set_grid(2 + n % 4, 2 + n % 3);
    Toy toy(sizes, seed);
    for (auto* list : {&toy.q, &toy.k, &toy.v, &toy.grad_out})
      for (double& x : *list) x = support::round_to(dtype, x);
    for (double& x : toy.w) x = support::round_to(rapt::Dtype::f32, x);
    for (auto& [name, p] : toy.parameters)
      for (double& x : p.data) x = support::round_to(rapt::Dtype::f32, x);
    Formula f{.score = maker.score(1 + n % 4), .pair = std::nullopt, .visible = std::nullopt};
    if (n % 3 == 1 && trees::text(f.score).find("raw") != std::string::npos) f.pair = maker.pair(1 + n % 3);
    if (n % 5 == 1) f.visible = maker.visible(2);
    const std::vector<double> expected = toy.attend(f);
    constexpr double kEps = 4 * 0x1p-24;  // a function's own error included
    const std::optional<double> error = expected.empty() ? std::nullopt : score_error(toy, f, kEps);
    if (!error || *error > 0.05) continue;
    const Result got = run_stored(toy, f, dtype);
    if (got.out.empty()) continue;
    const Result exact = run(toy, f, rapt::Path::reference, 1);
    if (exact.out.empty()) continue;
    ++checked;
    double largest = 0;
    for (const double x : toy.v) largest = std::fmax(largest, std::fabs(x));
    // Weights may be bf16 too; f16 is computed in f32.
    const double stored = dtype == rapt::Dtype::f32 ? 0x1p-24 : (dtype == rapt::Dtype::bf16 ? 0x1p-8 : 0x1p-11);
    const double weight = 2 * std::expm1(2 * *error) + 2 * stored + 100 * 0x1p-24;
    for (std::size_t m = 0; m < expected.size(); ++m)
      ASSERT_NEAR(got.out[m], expected[m], largest * weight + stored * std::fabs(expected[m]))
          << m << " of " << all_text(f);
    // Slopes have errors of their own, in proportion to the largest.
    const auto near = [&](const std::vector<double>& a, const std::vector<double>& b, const char* what) {
      double most = 1e-3;
      for (const double x : b) most = std::fmax(most, std::fabs(x));
      ASSERT_EQ(a.size(), b.size()) << what << " of " << all_text(f);
      for (std::size_t m = 0; m < a.size(); ++m)
        ASSERT_NEAR(a[m], b[m], most * (40 * weight)) << what << "[" << m << "] of " << all_text(f);
    };
    near(got.dq, exact.dq, "q");
    near(got.dk, exact.dk, "k");
    near(got.dv, exact.dv, "v");
    near(got.dw, exact.dw, "w");
    for (const auto& [name, grad] : got.dp) {
      near(grad, exact.dp.at(name), name.c_str());
      ++parameters;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 3);
  EXPECT_GT(parameters, 3);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StoredFormulas, testing::Range(0, 20));

// Larger than a tile in both directions, on every instruction set, and the same bits on any number of threads.
TEST(LargeFormulas, HaveTheValuesOfAnEvaluationInDoubleOnEveryTargetAndAnyThreads) {
  int checked = 0;
  const rapt::Isa kept = rapt::active_isa();
  for (int n = 0; checked < 8 && n < 100; ++n) {
    const auto seed = static_cast<unsigned>(777000 + n);
    Maker maker(seed, kTable, kRows, kCols);
    Sizes sizes{.batch = 1, .heads = 2, .queries = 70 + 13 * (n % 3), .dim = 5};
    sizes.set_grid(19 + n % 4, 6 + n % 2);
    const Toy toy(sizes, seed);
    Formula f{.score = maker.score(3), .pair = std::nullopt, .visible = std::nullopt};
    if (n % 3 == 1 && trees::text(f.score).find("raw") != std::string::npos) f.pair = maker.pair(2);
    if (n % 2 == 1) f.visible = maker.visible(2);
    const std::vector<double> expected = toy.attend(f);
    if (expected.empty()) continue;
    const Result reference = run(toy, f, rapt::Path::reference, 1);
    if (reference.out.empty()) continue;
    ++checked;
    for (const rapt::Isa isa : rapt::available_isas()) {
      rapt::set_isa(isa);
      const Result one = run(toy, f, rapt::Path::automatic, 1);
      for (std::size_t m = 0; m < expected.size(); ++m)
        ASSERT_NEAR(one.out[m], expected[m], 1e-9 * (1 + std::fabs(expected[m]))) << all_text(f);
      const auto near = [&](const std::vector<double>& a, const std::vector<double>& b, const char* what) {
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t m = 0; m < a.size(); ++m)
          ASSERT_NEAR(a[m], b[m], 1e-8 * (1 + std::fabs(b[m]))) << what << m << " of " << all_text(f);
      };
      near(one.dq, reference.dq, "q");
      near(one.dk, reference.dk, "k");
      near(one.dw, reference.dw, "w");
      for (const auto& [name, grad] : one.dp) near(grad, reference.dp.at(name), name.c_str());
      for (const int threads : {2, 3, 5}) {
        const Result several = run(toy, f, rapt::Path::automatic, threads);
        const auto same = [](const std::vector<double>& a, const std::vector<double>& b) {
          return std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
        };
        EXPECT_TRUE(same(several.out, one.out) && same(several.dq, one.dq) && same(several.dk, one.dk));
        for (const auto& [name, grad] : one.dp) EXPECT_TRUE(same(grad, several.dp.at(name))) << name;
      }
    }
    rapt::set_isa(kept);
  }
  EXPECT_EQ(checked, 8);
}

}  // namespace
