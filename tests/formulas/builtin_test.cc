// Formulas of built-in mechanisms against the compiled ones: outputs and all gradients.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cpu/block_visits.h"
#include "formulas/builtin.h"
#include "rapt/attend.h"
#include "rapt/formula.h"
#include "rapt/registry.h"
#include "rapt/tiles.h"

namespace {

template <class T>
struct Results {
  std::vector<T> out, lse, dq, dk, dv;
  std::vector<std::pair<std::string, std::vector<T>>> parameters;
};

struct Setting {
  std::int64_t queries = 40, keys = 40, dim = 16;
  bool causal = false;
  rapt::Normalizer normalizer = rapt::Normalizer::softmax;
  rapt::Path path = rapt::Path::automatic;
};

// The sizes that the mechanism's own specification asks for, at 32 buckets.
std::vector<std::int64_t> shape_of(const rapt::ParameterSpec& spec, std::int64_t heads, std::int64_t dim) {
  std::vector<std::int64_t> shape;
  if (spec.heads != rapt::Heads::shared) shape.push_back(heads);
  for (const int size : spec.sizes)
    if (size != 0) shape.push_back(size > 0 ? size : (spec.role == rapt::Role::relative_value ? 32 : dim));
  return shape;
}

template <class T>
Results<T> run(const rapt::MechanismInfo& takes, rapt::Score score, const Setting& s) {
  constexpr std::int64_t kBatch = 2, kHeads = 3, kValues = 9;
  std::mt19937 random(12345);
  std::normal_distribution<double> normal;
  const auto fill = [&](std::int64_t count, double scale) {
    std::vector<T> x(static_cast<std::size_t>(count));
    for (T& n : x) n = static_cast<T>(normal(random) * scale);
    return x;
  };
  const std::vector<T> q = fill(kBatch * kHeads * s.queries * s.dim, 1), k = fill(kBatch * kHeads * s.keys * s.dim, 1),
                       v = fill(kBatch * kHeads * s.keys * kValues, 1),
                       grad = fill(kBatch * kHeads * s.queries * kValues, 1);
  Results<T> r;
  rapt::Gradients gradients;
  std::vector<std::vector<T>> values;
  std::vector<std::vector<std::int64_t>> shapes;
  for (const rapt::ParameterSpec& spec : takes.parameters()) {
    if (!spec.required) continue;
    shapes.push_back(shape_of(spec, kHeads, s.dim));
    std::int64_t count = 1;
    for (const std::int64_t n : shapes.back()) count *= n;
    values.push_back(fill(count, 0.3));
    r.parameters.emplace_back(std::string(spec.name), std::vector<T>(static_cast<std::size_t>(count)));
  }
  for (std::size_t n = 0; n < values.size(); ++n) {
    const std::string& name = r.parameters[n].first;
    score.parameters.push_back({name, rapt::view(static_cast<const T*>(values[n].data()), shapes[n])});
    gradients.parameters.push_back({name, rapt::view(r.parameters[n].second.data(), shapes[n])});
  }
  if (takes.grid()) score.grid = {5, s.keys / 5};
  rapt::AttendOptions options;
  options.score = score;
  options.normalizer = s.normalizer;
  options.path = s.path;
  if (s.causal) options.mask.causal = rapt::Causal::top_left;
  const rapt::Shape qs{kBatch, kHeads, s.queries, s.dim}, ks{kBatch, kHeads, s.keys, s.dim},
      vs{kBatch, kHeads, s.keys, kValues}, os{kBatch, kHeads, s.queries, kValues}, ls{kBatch, kHeads, s.queries, 1};
  r.out.resize(grad.size());
  r.lse.resize(static_cast<std::size_t>(kBatch * kHeads * s.queries));
  r.dq.resize(q.size());
  r.dk.resize(k.size());
  r.dv.resize(v.size());
  const rapt::Inputs inputs{rapt::view(q.data(), qs), rapt::view(k.data(), ks), {rapt::view(v.data(), vs)}};
  rapt::Saved saved;
  rapt::Outputs outputs;
  outputs.out = {rapt::view(r.out.data(), os)};
  outputs.lse = rapt::view(r.lse.data(), ls);
  outputs.saved = &saved;
  rapt::attend(inputs, outputs, options);
  gradients.q = rapt::view(r.dq.data(), qs);
  gradients.k = rapt::view(r.dk.data(), ks);
  gradients.v = {rapt::view(r.dv.data(), vs)};
  rapt::attend_backward(inputs, {outputs.out[0]}, {rapt::view(grad.data(), os)}, &saved, gradients, options);
  return r;
}

template <class T>
void expect_near(const std::vector<T>& got, const std::vector<T>& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 1;
  for (const T x : expected)
    if (std::isfinite(static_cast<double>(x))) largest = std::max(largest, std::fabs(static_cast<double>(x)));
  const double tolerance = largest * (std::is_same_v<T, float> ? 2e-5 : 1e-12);
  for (std::size_t n = 0; n < got.size(); ++n) {
    if (got[n] == expected[n]) continue;  // infinities too
    ASSERT_NEAR(static_cast<double>(got[n]), static_cast<double>(expected[n]), tolerance) << what << "[" << n << "]";
  }
}

template <class T>
void compare(const rapt::formulas::BuiltinFormula& builtin, const Setting& s) {
  SCOPED_TRACE(std::string(builtin.mechanism) + (s.causal ? ", causal" : "") + (sizeof(T) == 4 ? ", f32" : ", f64"));
  const rapt::MechanismInfo& info = rapt::mechanism(builtin.mechanism);
  const rapt::Score compiled{.mechanism = &info};
  const rapt::Score formula = rapt::formula(builtin.score, {.pair = std::string(builtin.pair)});
  const Results<T> a = run<T>(info, formula, s), b = run<T>(info, compiled, s);
  expect_near(a.out, b.out, "out");
  expect_near(a.lse, b.lse, "lse");
  expect_near(a.dq, b.dq, "dq");
  expect_near(a.dk, b.dk, "dk");
  expect_near(a.dv, b.dv, "dv");
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (std::size_t n = 0; n < a.parameters.size(); ++n)
    expect_near(a.parameters[n].second, b.parameters[n].second, a.parameters[n].first);
}

TEST(BuiltinFormulas, AreTheCompiledMechanisms) {
  int compared = 0;
  for (const rapt::formulas::BuiltinFormula& builtin : rapt::formulas::builtin_formulas()) {
    if (!builtin.is_formula()) continue;
    ++compared;
    for (const rapt::Path path : {rapt::Path::automatic, rapt::Path::generic, rapt::Path::reference}) {
      Setting s;
      s.path = path;
      compare<float>(builtin, s);
      compare<double>(builtin, s);
      s.causal = true;
      compare<double>(builtin, s);
      s.normalizer = rapt::Normalizer::entmax15;
      compare<double>(builtin, s);
    }
    Setting large;
    large.queries = large.keys = 205;
    compare<float>(builtin, large);
    compare<double>(builtin, large);
    if (HasFailure()) return;
  }
  EXPECT_EQ(compared, 8);
}

// The same bits: the kernels are the compiled ones, and a factor is applied to the score.
TEST(BuiltinFormulas, KnowPairsInOtherWordsAndTimesANumber) {
  struct Same {
    const char* mechanism;
    const char* score;
    const char* pair;
    const char* plain;  // with the mechanism's own pair
    const char* own;
  };
  for (const Same& one : {Same{"distance", "-gamma*raw", "(k-q)^2", "-gamma*raw", "(q-k)^2"},
                          Same{"distance", "-gamma*raw", "(k-q)*(k-q)", "-gamma*raw", "(q-k)^2"},
                          Same{"distance", "gamma*raw", "-(q-k)^2", "-gamma*raw", "(q-k)^2"},
                          Same{"distance", "gamma*raw", "(k-q)*(q-k)", "-gamma*raw", "(q-k)^2"},
                          Same{"distance", "-gamma*raw", "0.25*(q-k)^2*3", "-gamma*(raw*0.75)", "(q-k)^2"},
                          Same{"additive", "raw", "tanh(k+q)*w", "raw", "w*tanh(q+k)"},
                          Same{"additive", "raw", "w*tanh(q+k)*1.0001", "raw*1.0001", "w*tanh(q+k)"},
                          Same{"additive", "raw*scale", "2*w*tanh(q+k)/4", "raw*0.5*scale", "w*tanh(q+k)"}}) {
    SCOPED_TRACE(std::string(one.score) + " of " + one.pair);
    const rapt::MechanismInfo& info = rapt::mechanism(one.mechanism);
    const rapt::Score given = rapt::formula(one.score, {.pair = one.pair}),
                      plain = rapt::formula(one.plain, {.pair = one.own});
    EXPECT_EQ(given.mechanism->definition().fast_limit, info.definition().fast_limit);
    const Results<float> a = run<float>(info, given, {}), b = run<float>(info, plain, {});
    EXPECT_EQ(a.out, b.out);
    EXPECT_EQ(a.dq, b.dq);
    EXPECT_EQ(a.dk, b.dk);
    EXPECT_EQ(a.parameters, b.parameters);
  }
  EXPECT_EQ(rapt::formulas::equal_mechanism("-gamma*raw", "(k-q)^2").name, "distance");
  EXPECT_EQ(rapt::formulas::equal_mechanism("raw", "tanh(k+q)*w").name, "additive");
  EXPECT_EQ(rapt::formulas::equal_mechanism("raw", "2*w*tanh(q+k)").name, "");
  // Neither a number that a score could not hold, nor another function.
  for (const char* other : {"1e30*w*tanh(q+k)", "0*w*tanh(q+k)", "w*w*tanh(q+k)", "w*tanh(q-k)", "q^4*k^8*w^16"})
    EXPECT_EQ(rapt::formula("raw", {.pair = other}).mechanism->definition().fast_limit, 0) << other;
}

// A score without parameters has no gradient of its own that a second pass could make more exact.
TEST(BuiltinFormulas, VisitNoMoreBlocksThanTheirMechanism) {
  const rapt::MechanismInfo& additive = rapt::mechanism("additive");
  const auto visits = [&](const rapt::Score& score) {
    const std::int64_t before = rapt::visited_blocks;
    run<float>(additive, score, {.queries = 205, .keys = 205});
    return rapt::visited_blocks - before;
  };
  const std::int64_t compiled = visits({.mechanism = &additive});
  EXPECT_GT(compiled, 0);
  for (const char* score : {"raw", "2*raw", "20*tanh(raw/20)"})
    EXPECT_EQ(visits(rapt::formula(score, {.pair = "w*tanh(q+k)"})), compiled) << score;
}

TEST(BuiltinFormulas, KnowASoftcap) {
  const auto equal = [](const char* score) { return rapt::formulas::equal_mechanism(score, ""); };
  EXPECT_EQ(equal("20*tanh(raw*scale/20)").name, "scaled_dot");
  EXPECT_EQ(equal("20*tanh(raw*scale/20)").softcap, 20);
  EXPECT_EQ(equal("tanh((raw*scale - m*abs(i-j))/7.5)*7.5").name, "alibi");
  EXPECT_EQ(equal("tanh((raw*scale - m*abs(i-j))/7.5)*7.5").softcap, 7.5);
  EXPECT_EQ(equal("raw*scale").softcap, 0);
  for (const char* other : {"20*tanh(raw*scale/21)", "-20*tanh(raw*scale/-20)", "20*tanh(raw)", "c*tanh(raw/c)"})
    EXPECT_EQ(equal(other).name, "") << other;
}

TEST(BuiltinFormulas, ListEveryMechanism) {
  const auto list = rapt::formulas::builtin_formulas();
  ASSERT_EQ(list.size(), rapt::all_mechanisms().size());
  for (std::size_t n = 0; n < list.size(); ++n) {
    EXPECT_EQ(list[n].mechanism, rapt::all_mechanisms()[n]->name());
    EXPECT_NE(list[n].score.empty(), list[n].why.empty());
  }
}

}  // namespace
