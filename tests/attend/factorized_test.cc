// The two passes over a grid against the naive path: outputs, lse and every gradient.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/engine.h"
#include "backends/host/host_parameters.h"
#include "backends/reference/backend.h"
#include "rapt/registry.h"
#include "support/buffer.h"
#include "support/cases.h"

namespace {

bool factorizes(rapt::Problem problem) {
  rapt::read_host_parameters(problem);
  return rapt::can_factorize(problem);
}

using oracle::Array;
using oracle::Sizes;
using support::Int;

// Heads of every kind: one wide, one narrow, one looking off the grid, one flat, one with a valley.
Array alphas(Int heads) {
  const double all[] = {0.0625, 0.75, 0.25, 0, -0.015625};
  return Array({1, 1, 1, heads}, std::vector<double>(all, all + heads));
}

Array centers(Int heads) {
  const double all[] = {0.5, -1.25, -2, 1, 7.5, -30, 0.25, 0, 1, 1};
  return Array({1, 1, heads, 2}, std::vector<double>(all, all + 2 * heads));
}

// Γ whose columns are orthogonal, so that ΓᵀΓ is diagonal: diagonal ones and one that swaps the axes.
Array gammas(Int heads) {
  const double all[] = {0.5, 0, 0, 0.25, 0, 0.5, -0.75, 0, 0.125, 0, 0, 1, 0.5, 0.5, 0.5, -0.5, 0, 0, 0, 0.5};
  return Array({1, heads, 2, 2}, std::vector<double>(all, all + 4 * heads));
}

struct Spec {
  std::string mechanism = "quadratic";
  rapt::Dtype dtype = rapt::Dtype::f64;    // that the numbers fit in
  rapt::Dtype storage = rapt::Dtype::f64;  // that they are stored and computed in
  Int rows = 5, cols = 3;
  Int batch = 3, heads = 4;
  Int value_batches = 3, value_heads = 4;
  std::vector<Int> dims = {6};
  support::Layout layout = support::Layout::bhsd;
};

std::string describe(const Spec& s) {
  return s.mechanism + " " + rapt::name_of(s.dtype) + " " + std::to_string(s.rows) + "×" + std::to_string(s.cols) +
         " v " + std::to_string(s.value_batches) + "·" + std::to_string(s.value_heads);
}

struct Results {
  std::vector<Array> out, dv;
  Array lse, dq, dk;
  std::map<std::string, Array> parameters;
  std::vector<std::byte> bits;
};

class Grid {
 public:
  explicit Grid(const Spec& spec) : spec_(spec) {
    support::Random random(11);
    const Int n = spec.rows * spec.cols;
    const auto add = [&](const Sizes& shape) {
      return support::Buffer(support::random_array(shape, random, spec.dtype), spec.storage, spec.layout);
    };
    q_ = add({spec.batch, spec.heads, n, 4});
    k_ = add({spec.batch, 1, n, 4});
    for (const Int dim : spec.dims) {
      v_.push_back(add({spec.value_batches, spec.value_heads, n, dim}));
      grad_out_.push_back(add({spec.batch, spec.heads, n, dim}));
    }
    parameter("center", centers(spec.heads));
    if (spec.mechanism == "quadratic") parameter("alpha", alphas(spec.heads));
    else parameter("gamma", gammas(spec.heads));
    options.score.mechanism = &rapt::mechanism(spec.mechanism);
    options.score.grid = {spec.rows, spec.cols};
  }

  void parameter(const std::string& name, const Array& values) {
    parameters_[name] = support::Buffer(values, spec_.storage);
  }

  support::Buffer& v(std::size_t set) { return v_[set]; }
  support::Buffer& grad_out(std::size_t set) { return grad_out_[set]; }

  rapt::Problem problem() {
    rapt::Inputs inputs{q_.view(), k_.view(), {}};
    for (support::Buffer& v : v_) inputs.v.push_back(v.view());
    options.score.parameters.clear();
    for (auto& [name, buffer] : parameters_) options.score.parameters.push_back({name, buffer.view()});
    return rapt::make_problem("test", inputs, options);
  }

  using Forward = void (*)(rapt::Problem&, const rapt::Outputs&);
  using Backward = void (*)(rapt::Problem&, const rapt::BackwardRequest&);

  Results run(Forward forward, Backward backward, int threads = 2) {
    options.threads = threads;
    rapt::Problem p = problem();
    std::map<std::string, support::Buffer> written;
    const auto make = [&](const std::string& name, const Sizes& shape, support::Layout layout) {
      return (written[name] = support::Buffer(spec_.storage, shape, layout)).view();
    };
    rapt::Outputs outputs;
    rapt::Gradients gradients;
    rapt::BackwardRequest request;
    for (std::size_t n = 0; n < v_.size(); ++n) {
      outputs.out.push_back(make("out" + std::to_string(n), grad_out_[n].shape(), spec_.layout));
      gradients.v.push_back(make("dv" + std::to_string(n), v_[n].shape(), spec_.layout));
      request.grad_out.push_back(rapt::make_operand("test", "grad_out", grad_out_[n].view()));
    }
    outputs.lse = make("lse", {p.batch, p.heads, p.queries, 1}, support::Layout::gaps);
    gradients.q = make("dq", q_.shape(), spec_.layout);
    gradients.k = make("dk", k_.shape(), spec_.layout);
    for (auto& [name, buffer] : parameters_)
      gradients.parameters.push_back({name, make(name, buffer.shape(), support::Layout::bhsd)});
    forward(p, outputs);
    request.gradients = gradients;
    backward(p, request);

    Results r;
    for (const auto& [name, buffer] : written) {
      EXPECT_EQ(buffer.damage(), "") << name;
      r.bits.insert(r.bits.end(), buffer.bytes().begin(), buffer.bytes().end());
    }
    for (std::size_t n = 0; n < v_.size(); ++n) {
      r.out.push_back(written.at("out" + std::to_string(n)).values());
      r.dv.push_back(written.at("dv" + std::to_string(n)).values());
    }
    r.lse = written.at("lse").values();
    r.dq = written.at("dq").values();
    r.dk = written.at("dk").values();
    for (const auto& [name, buffer] : parameters_) r.parameters[name] = written.at(name).values();
    return r;
  }

  Results factorized(int threads = 2) { return run(factorized_forward, factorized_backward, threads); }
  static void reference_forward(rapt::Problem& p, const rapt::Outputs& outputs) {
    rapt::reference_backend().forward(p, outputs)->run();
  }
  Results reference() { return run(reference_forward, rapt::reference_backend().backward); }

  static void factorized_forward(rapt::Problem& p, const rapt::Outputs& outputs) {
    rapt::read_host_parameters(p);
    rapt::factorized_forward(p, outputs);
  }
  static void factorized_backward(rapt::Problem& p, const rapt::BackwardRequest& request) {
    rapt::read_host_parameters(p);
    rapt::factorized_backward(p, request.grad_out, request.gradients);
  }

  rapt::AttendOptions options;

 private:
  Spec spec_;
  support::Buffer q_, k_;
  std::vector<support::Buffer> v_, grad_out_;
  std::map<std::string, support::Buffer> parameters_;
};

double largest(const Array& x) {
  double most = 0;
  for (const double e : x.data) most = std::max(most, std::abs(e));
  return most;
}

double difference(const Array& a, const Array& b) {
  EXPECT_EQ(a.data.size(), b.data.size());
  double most = 0;
  for (std::size_t n = 0; n < a.data.size(); ++n) {
    if (std::isnan(a.data[n]) && std::isnan(b.data[n])) continue;
    const double d = std::abs(a.data[n] - b.data[n]);
    most = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(most, d);
  }
  return most;
}

void expect_close(const Array& got, const Array& want, double error, const std::string& name) {
  EXPECT_LE(difference(got, want), error * (1 + largest(want))) << name;
}

void expect_close(const Results& got, const Results& want, double error) {
  for (std::size_t n = 0; n < want.out.size(); ++n) {
    expect_close(got.out[n], want.out[n], error, "out");
    expect_close(got.dv[n], want.dv[n], error, "dv");
  }
  expect_close(got.lse, want.lse, error, "lse");
  for (const auto& [name, value] : want.parameters) expect_close(got.parameters.at(name), value, error, name);
  EXPECT_EQ(largest(got.dq), 0);
  EXPECT_EQ(largest(got.dk), 0);
}

double spacing(rapt::Dtype dtype) {
  switch (dtype) {
    case rapt::Dtype::f64: return 0x1p-52;
    case rapt::Dtype::f32: return 0x1p-23;
    case rapt::Dtype::bf16: return 0x1p-7;
    case rapt::Dtype::f16: return 0x1p-10;
  }
  return 0;
}

// In f64 the paths agree. In other types the passes are at most twice as far from f64 as the naive path is, or within a
// few roundings of it.
void compare(Spec spec) {
  SCOPED_TRACE(describe(spec));
  spec.storage = rapt::Dtype::f64;
  Grid exact_grid(spec);
  ASSERT_TRUE(factorizes(exact_grid.problem()));
  const Results exact = exact_grid.reference();
  if (spec.dtype == rapt::Dtype::f64) return expect_close(exact_grid.factorized(), exact, 1e-12);
  spec.storage = spec.dtype;
  Grid grid(spec);
  const Results got = grid.factorized(), naive = grid.reference();
  const auto check = [&](const Array& a, const Array& plain, const Array& want, const std::string& name) {
    EXPECT_LE(difference(a, want), 2 * difference(plain, want) + 4 * spacing(spec.dtype) * largest(want)) << name;
  };
  for (std::size_t n = 0; n < exact.out.size(); ++n) {
    check(got.out[n], naive.out[n], exact.out[n], "out");
    check(got.dv[n], naive.dv[n], exact.dv[n], "dv");
  }
  check(got.lse, naive.lse, exact.lse, "lse");
  for (const auto& [name, value] : exact.parameters)
    check(got.parameters.at(name), naive.parameters.at(name), value, name);
  EXPECT_EQ(largest(got.dq), 0);
  EXPECT_EQ(largest(got.dk), 0);
}

TEST(Factorized, EqualsTheNaivePath) {
  for (const rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16, rapt::Dtype::f16})
    for (const char* mechanism : {"quadratic", "gaussian"})
      for (const auto& [rows, cols] : {std::pair<Int, Int>{1, 7}, {7, 1}, {5, 3}, {17, 17}, {1, 1}, {8, 16}}) {
        Spec spec;
        spec.dtype = dtype;
        spec.mechanism = mechanism;
        spec.rows = rows;
        spec.cols = cols;
        compare(spec);
      }
}

TEST(Factorized, SharedAndSeveralValues) {
  for (const rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32})
    for (const Int batches : {1, 3})
      for (const Int heads : {1, 2, 4}) {
        Spec spec;
        spec.dtype = dtype;
        spec.mechanism = "gaussian";
        spec.value_batches = batches;
        spec.value_heads = heads;
        spec.dims = {1, 70, 33};
        spec.layout = heads == 2 ? support::Layout::gaps : support::Layout::bshd;
        compare(spec);
      }
}

TEST(Factorized, OtherScalesAndShapesOfTheScore) {
  for (const double scale : {0.37, -0.02}) {
    Spec spec;
    spec.heads = spec.value_heads = 5;
    Grid grid(spec);
    grid.options.scale = scale;
    expect_close(grid.factorized(), grid.reference(), 2e-13);
  }
}

// The form's terms grow with the square of the centre, and cancel: the passes must not lose what the score keeps.
TEST(Factorized, FarCenters) {
  for (const double far : {40.0, 1e3, 1e6}) {
    Spec spec;
    spec.mechanism = "gaussian";
    spec.rows = spec.cols = 9;
    spec.heads = spec.value_heads = 1;
    Grid grid(spec);
    grid.parameter("center", Array({1, 1, 1, 2}, {far, -far}));
    grid.parameter("gamma", Array({1, 1, 2, 2}, {1 / far, 0, 0, 1 / far}));
    SCOPED_TRACE(far);
    const Results got = grid.factorized(), want = grid.reference();
    expect_close(got.out[0], want.out[0], 1e-13, "out");
    expect_close(got.lse, want.lse, 1e-13, "lse");
    expect_close(got.parameters.at("center"), want.parameters.at("center"), 1e-13, "center");
  }
}

TEST(Factorized, ThreadsDoNotChangeABit) {
  for (const rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32}) {
    Spec spec;
    spec.dtype = spec.storage = dtype;
    spec.rows = 11;
    spec.cols = 6;
    spec.value_heads = 2;
    spec.dims = {70, 3};
    Grid grid(spec);
    const Results alone = grid.factorized(1);
    for (const int threads : {2, 3, 5}) EXPECT_EQ(grid.factorized(threads).bits, alone.bits) << threads;
  }
}

// A narrow head gives distant keys a weight of exactly 0: their values must not matter, forward or backward.
TEST(Factorized, NaNsStayWhereTheyHaveWeight) {
  for (const rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32})
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      Spec spec;
      spec.dtype = spec.storage = dtype;
      spec.rows = 6;
      spec.cols = 7;
      spec.heads = spec.value_heads = 2;
      Grid grid(spec);
      // One step away the weight is e^{−900}: 0 in any type.
      grid.parameter("alpha", Array({1, 1, 1, 2}, {900, 1000}));
      grid.parameter("center", Array({1, 1, 2, 2}, {0, 0, 1, 0}));
      Array v = grid.v(0).values(), g = grid.grad_out(0).values();
      v.at(0, 0, 9, 2) = bad;
      v.at(2, 1, 3, 0) = bad;  // the first grid row, which head 1 never looks at
      g.at(1, 0, 20, 1) = bad;
      grid.v(0).set(v);
      grid.grad_out(0).set(g);
      const Results got = grid.factorized(), want = grid.reference();
      for (std::size_t n = 0; n < want.out[0].data.size(); ++n) {
        EXPECT_EQ(std::isfinite(got.out[0].data[n]), std::isfinite(want.out[0].data[n])) << "out " << n;
        EXPECT_EQ(std::isfinite(got.dv[0].data[n]), std::isfinite(want.dv[0].data[n])) << "dv " << n;
      }
      for (const auto& [name, value] : want.parameters)
        for (std::size_t n = 0; n < value.data.size(); ++n)
          EXPECT_EQ(std::isfinite(got.parameters.at(name).data[n]), std::isfinite(value.data[n])) << name << n;
      EXPECT_FALSE(std::isfinite(got.out[0].at(0, 0, 9, 2)));
      EXPECT_TRUE(std::isfinite(got.parameters.at("alpha").data[1]));
    }
}

TEST(Factorized, SavesTheRowsOfTheSoftmax) {
  Grid grid{Spec{}};
  rapt::Problem p = grid.problem();
  rapt::Saved got, want;
  for (rapt::Saved* saved : {&got, &want}) saved->rows()->resize(p.batch * p.heads * p.queries, p.is_double);
  rapt::Outputs outputs;
  outputs.saved = &got;
  Grid::factorized_forward(p, outputs);
  outputs.saved = &want;
  rapt::reference_backend().forward(p, outputs)->run();
  ASSERT_EQ(got.rows()->max_f64.size(), want.rows()->max_f64.size());
  for (std::size_t n = 0; n < want.rows()->max_f64.size(); ++n) {
    EXPECT_NEAR(got.rows()->max_f64[n], want.rows()->max_f64[n], 1e-12);
    EXPECT_NEAR(got.rows()->sum_f64[n], want.rows()->sum_f64[n], 1e-12 * want.rows()->sum_f64[n]);
  }
}

TEST(Factorized, OnlyWhatFactorizes) {
  const auto refused = [](auto change, Spec spec = {}) {
    Grid grid(spec);
    change(grid);
    return !factorizes(grid.problem());
  };
  std::vector<double> bias(15);
  const std::vector<std::uint8_t> mask(15, 1);
  EXPECT_FALSE(refused([](Grid&) {}));
  EXPECT_TRUE(refused([](Grid& g) { g.options.normalizer = rapt::Normalizer::argmax; }));
  EXPECT_TRUE(refused([](Grid& g) { g.options.softcap = 3; }));
  EXPECT_TRUE(refused([&](Grid& g) { g.options.bias = rapt::view(bias.data(), {1, 15}); }));
  EXPECT_TRUE(refused([](Grid& g) { g.options.mask.causal = rapt::Causal::top_left; }));
  EXPECT_TRUE(refused([](Grid& g) { g.options.mask.window = rapt::Window{2, -1}; }));
  EXPECT_FALSE(refused([](Grid& g) { g.options.mask.window = rapt::Window{}; }));
  EXPECT_TRUE(refused([](Grid& g) { g.options.mask.key_lengths = {15, 15, 14}; }));
  EXPECT_TRUE(refused([](Grid& g) { g.options.mask.query_starts = g.options.mask.key_starts = {0, 15}; }));
  EXPECT_TRUE(refused([&](Grid& g) { g.options.mask.dense = {mask.data(), {1, 1, 1, 15}, {15, 15, 15, 1}}; }));
  EXPECT_TRUE(refused([](Grid& g) { g.parameter("alpha", Array({1, 1, 1, 4}, {1, 1, std::nan(""), 1})); }));
  EXPECT_TRUE(refused([](Grid& g) { g.parameter("alpha", Array({1, 1, 1, 4}, {1, 1, 1e200, 1})); }));

  Spec gaussian;
  gaussian.mechanism = "gaussian";
  EXPECT_FALSE(refused([](Grid&) {}, gaussian));
  // One head that is not axis-aligned is enough.
  Array tilted = gammas(4);
  tilted.data[1] = 1e-9;
  EXPECT_TRUE(refused([&](Grid& g) { g.parameter("gamma", tilted); }, gaussian));

  // A long line: its column weights would be as large as the score matrix.
  Spec line;
  line.rows = 1;
  line.cols = 1000;
  EXPECT_TRUE(refused([](Grid&) {}, line));

  support::CaseSpec other;
  other.mechanism = "scaled_dot";
  const support::Case c = support::make_case(other);
  const support::Buffer x(c.problem.q, rapt::Dtype::f64);
  EXPECT_FALSE(factorizes(rapt::make_problem("test", {x.view(), x.view(), {x.view()}}, {})));
}

}  // namespace
