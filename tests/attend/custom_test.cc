// Mechanisms of the caller's own: lambdas and structs of hooks, checked by value and by finite differences.

#include <gtest/gtest.h>

#include <cmath>

#include "rapt/custom.h"
#include "support/checks.h"
#include "support/custom.h"

namespace {

using oracle::Array;
using support::Call;
using support::CaseSpec;
using support::check_gradients;
using support::check_values;
using support::Custom;
using support::Int;

// Cauchy similarity with a learned width and a learned slope, over differences weighted by dimension.
struct Cauchy {
  static constexpr std::string_view formula = "−log(1 + width·Σ w(q−k)²) − slope·|i−j|";
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "width"},
      rapt::ParameterSpec{.name = "slope", .heads = rapt::Heads::required},
      rapt::ParameterSpec{.name = "w", .role = rapt::Role::pair_weight, .sizes = {rapt::kKeyDim}},
  };
  static constexpr bool of_difference = true;

  template <class N>
  constexpr N pair(N q, N k, N w) const {
    const N x = q - k;
    return w * x * x;
  }
  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    using rapt::abs;
    using rapt::log;
    return -log(p[0] * raw + 1) - p[1] * abs(at.offset());
  }
};

// Only keys at a multiple of a stride, which is the struct's own state.
struct Strided {
  static constexpr std::string_view formula = "q·k/√Dk where (i−j) mod stride = 0";
  static constexpr bool scaled = true;
  float stride = 3;

  template <class At>
  auto visible(const At& at) const {
    using rapt::floor;
    const auto turns = at.offset() / stride;
    return floor(turns) == turns;
  }
};

// A product with a learned matrix on the keys and a vector added to the queries.
struct Mapped {
  static constexpr std::string_view formula = "(q + u)·(k W)";
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "W", .role = rapt::Role::key_map, .sizes = {rapt::kKeyDim, rapt::kQueryDim}},
      rapt::ParameterSpec{.name = "u", .role = rapt::Role::query_shift, .sizes = {rapt::kQueryDim}},
  };
};

// Every function that hooks may call on numbers, on both sides of every branch.
struct Piecewise {
  static constexpr std::string_view formula = "pieces of raw";
  static constexpr std::array parameters{rapt::ParameterSpec{.name = "knee"}};

  template <class N, class P, class At>
  N score(N raw, const P& p, const At&) const {
    using rapt::abs;
    using rapt::clamp;
    using rapt::exp;
    using rapt::floor;
    using rapt::max;
    using rapt::min;
    using rapt::sqrt;
    using rapt::where;
    const N bent = where(raw < p[0], exp(raw), sqrt(raw + 3));
    return bent + max(raw, p[0]) * 0.5 - min(raw, p[0] * p[0]) + clamp(raw, N(-0.5), N(0.5)) + floor(raw) / 8 -
           abs(raw) / 4;
  }
};

double piecewise(double raw, double knee) {
  const double bent = raw < knee ? std::exp(raw) : std::sqrt(raw + 3);
  return bent + std::max(raw, knee) * 0.5 - std::min(raw, knee * knee) + std::clamp(raw, -0.5, 0.5) +
         std::floor(raw) / 8 - std::abs(raw) / 4;
}

// Vectors made of unit length after a map and before a shift.
struct ShiftedUnit {
  static constexpr std::string_view formula = "(q W/‖q W‖ + u) · k/‖k‖";
  static constexpr bool unit_rows = true;
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "W", .role = rapt::Role::query_map, .sizes = {rapt::kQueryDim, rapt::kKeyDim}},
      rapt::ParameterSpec{.name = "u", .role = rapt::Role::query_shift, .sizes = {rapt::kKeyDim}},
  };
};

// Two tables by distance, one of numbers and one of vectors, read under a product of both.
struct Tables {
  static constexpr std::string_view formula = "q·k/√Dk + number[d] · tanh(q·vector[d])";
  static constexpr bool scaled = true;
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "number", .role = rapt::Role::relative_value, .sizes = {rapt::kAny}},
      rapt::ParameterSpec{
          .name = "vector", .role = rapt::Role::relative_vector, .sizes = {rapt::kAny, rapt::kQueryDim}},
  };
  std::int64_t index(std::int64_t offset, const rapt::TableShape& table) const {
    return std::min<std::int64_t>(offset < 0 ? -offset : offset, table.rows - 1);
  }
  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    using rapt::tanh;
    return raw * at.scale + p[0] * tanh(p[1]);
  }
};

// Blocks of keys whose parity is the query's; whole tiles are answered at once where they can be.
struct Blocks {
  static constexpr std::string_view formula = "q·k where j < limit";
  std::int64_t limit = 40;

  template <class At>
  auto visible(const At& at) const {
    return at.j < static_cast<decltype(at.j)>(limit);
  }
  rapt::Visible visible_tile(const rapt::TileRange& range) const {
    if (range.last_key < limit) return rapt::Visible::all;
    return range.first_key >= limit ? rapt::Visible::none : rapt::Visible::some;
  }
};

CaseSpec small() {
  CaseSpec s;
  s.queries = 9;
  s.keys = 11;
  s.key_dim = 4;
  s.value_dims = {3};
  return s;
}

double product(const oracle::Problem& p, Int h, Int i, Int j) {
  double sum = 0;
  for (Int d = 0; d < p.k.shape[3]; ++d) sum += p.q.at(0, h, i, d) * p.k.at(0, h, j, d);
  return sum;
}

TEST(Custom, Lambda) {
  const Custom c = Custom::make(rapt::custom([](auto raw, const auto& at) {
                                  using rapt::abs;
                                  using rapt::tanh;
                                  return tanh(raw * at.scale) * 3 - 0.1 * abs(at.offset());
                                }),
                                small());
  const oracle::Problem& p = c.described.problem;
  check_values(c, [&](Int h, Int i, Int j) { return 3 * std::tanh(product(p, h, i, j) / 2) - 0.1 * std::abs(i - j); });
  check_gradients(c);
}

TEST(Custom, LambdaWithState) {
  const double slope = 0.25;
  const Custom c = Custom::make(
      rapt::custom([slope](auto raw, const auto& at) { return raw * at.scale + slope * at.offset(); }), small());
  const oracle::Problem& p = c.described.problem;
  check_values(c, [&](Int h, Int i, Int j) { return product(p, h, i, j) / 2 + slope * static_cast<double>(j - i); });
  check_gradients(c);
}

TEST(Custom, PairAndParameters) {
  support::Random random(4);
  Array w({1, 1, 1, 4});
  for (double& e : w.data) e = random.uniform(0.2, 1);
  const Custom c =
      Custom::make(rapt::custom(Cauchy{}), small(),
                   {{"width", Array({1, 1, 1, 1}, {0.7})}, {"slope", Array({1, 1, 1, 2}, {0.1, 0.3})}, {"w", w}});
  const oracle::Problem& p = c.described.problem;
  check_values(c, [&](Int h, Int i, Int j) {
    double sum = 0;
    for (Int d = 0; d < 4; ++d)
      sum += w.data[static_cast<std::size_t>(d)] * std::pow(p.q.at(0, h, i, d) - p.k.at(0, h, j, d), 2);
    return -std::log(1 + 0.7 * sum) - (h == 0 ? 0.1 : 0.3) * std::abs(double(i - j));
  });
  check_gradients(c);
}

TEST(Custom, VisibleAndState) {
  for (float stride : {1.f, 2.f, 5.f}) {
    CaseSpec s = small();
    s.queries = 70;
    s.keys = 90;
    const Custom c = Custom::make(rapt::custom(Strided{stride}), s);
    const oracle::Problem& p = c.described.problem;
    check_values(c, [&](Int h, Int i, Int j) {
      if ((j - i) % static_cast<Int>(stride) != 0) return -HUGE_VAL;
      return product(p, h, i, j) / 2;
    });
  }
  check_gradients(Custom::make(rapt::custom(Strided{2}), small()));
}

TEST(Custom, MapsAndShifts) {
  support::Random random(6);
  const Array W = support::random_array({1, 2, 4, 4}, random, rapt::Dtype::f64, 0.5);
  const Array u = support::random_array({1, 1, 1, 4}, random, rapt::Dtype::f64, 0.5);
  const Custom c = Custom::make(rapt::custom(Mapped{}), small(), {{"W", W}, {"u", u}});
  const oracle::Problem& p = c.described.problem;
  check_values(c, [&](Int h, Int i, Int j) {
    double sum = 0;
    for (Int out = 0; out < 4; ++out)
      for (Int in = 0; in < 4; ++in)
        sum += (p.q.at(0, h, i, out) + u.at(0, 0, 0, out)) * p.k.at(0, h, j, in) * W.at(0, h, in, out);
    return sum;
  });
  check_gradients(c);
}

TEST(Custom, EveryFunctionOfNumbers) {
  const Custom c = Custom::make(rapt::custom(Piecewise{}), small(), {{"knee", Array({1, 1, 1, 2}, {0.3, -0.2})}});
  const oracle::Problem& p = c.described.problem;
  check_values(c, [&](Int h, Int i, Int j) { return piecewise(product(p, h, i, j), h == 0 ? 0.3 : -0.2); });
  check_gradients(c);
}

TEST(Custom, MapThenUnitLengthThenShift) {
  support::Random random(8);
  const Array W = support::random_array({1, 1, 4, 4}, random, rapt::Dtype::f64, 0.5);
  const Array u = support::random_array({1, 1, 2, 4}, random, rapt::Dtype::f64, 0.5);
  const Custom c = Custom::make(rapt::custom(ShiftedUnit{}), small(), {{"W", W}, {"u", u}});
  const oracle::Problem& p = c.described.problem;
  check_values(c, [&](Int h, Int i, Int j) {
    double mapped[4], query = 0, key = 0, both = 0;
    for (Int out = 0; out < 4; ++out) {
      mapped[out] = 0;
      for (Int in = 0; in < 4; ++in) mapped[out] += p.q.at(0, h, i, in) * W.at(0, 0, in, out);
      query += mapped[out] * mapped[out];
      key += p.k.at(0, h, j, out) * p.k.at(0, h, j, out);
    }
    for (Int out = 0; out < 4; ++out)
      both += (mapped[out] / std::sqrt(query) + u.at(0, 0, h, out)) * p.k.at(0, h, j, out) / std::sqrt(key);
    return both;
  });
  check_gradients(c);
}

TEST(Custom, TablesByDistance) {
  support::Random random(12);
  const Array number = support::random_array({1, 1, 2, 5}, random, rapt::Dtype::f64);
  const Array vector = support::random_array({1, 1, 6, 4}, random, rapt::Dtype::f64);
  for (Int length : {9, 70}) {
    CaseSpec s = small();
    s.queries = length;
    const Custom c = Custom::make(rapt::custom(Tables{}), s, {{"number", number}, {"vector", vector}});
    const oracle::Problem& p = c.described.problem;
    check_values(c, [&](Int h, Int i, Int j) {
      double read = 0;
      for (Int d = 0; d < 4; ++d) read += p.q.at(0, h, i, d) * vector.at(0, 0, std::min<Int>(std::abs(i - j), 5), d);
      return product(p, h, i, j) / 2 + number.at(0, 0, h, std::min<Int>(std::abs(i - j), 4)) * std::tanh(read);
    });
    if (length < 20) check_gradients(c);
  }
}

TEST(Custom, WholeTilesMayBeHidden) {
  for (std::int64_t limit : {0, 1, 40, 64, 150, 1000}) {
    CaseSpec s = small();
    s.queries = 90;
    s.keys = 200;
    const Custom c = Custom::make(rapt::custom(Blocks{limit}), s);
    const oracle::Problem& p = c.described.problem;
    check_values(c, [&](Int h, Int i, Int j) { return j < limit ? product(p, h, i, j) : -HUGE_VAL; });
  }
  check_gradients(Custom::make(rapt::custom(Blocks{6}), small()));
}

// A formula of the library, written again by a caller, gives the same numbers.
TEST(Custom, EqualsTheRegisteredMechanism) {
  CaseSpec s = small();
  s.mechanism = "alibi";
  s.queries = 60;
  s.keys = 75;
  s.mask = support::MaskKind::bottom_right;
  const support::Case c = make_case(s);
  Call registered(c), own(c);
  const double slopes[2] = {c.problem.parameters.at("m").data[0], c.problem.parameters.at("m").data[1]};
  own.options.score = rapt::custom([&slopes](auto raw, const auto& at) {
    using rapt::abs;
    return raw * at.scale - slopes[at.head] * abs(at.offset());
  });
  EXPECT_TRUE(support::agree(registered.forward().out[0], own.forward().out[0], 1e-13));
  support::BackwardWants wants;
  wants.parameters = false;
  EXPECT_TRUE(support::agree(registered.backward(wants).gradients, own.backward(wants).gradients, 1e-12));
}

}  // namespace
