// Hooks of a program's own and formulas, whose score depends on which batch and head it is of and on how many queries and keys the
// call has: a part of a call must tell them of the whole. The oracle has the same as a bias and a mask.

#include <gtest/gtest.h>

#include <cmath>

#include "distributed/processes.h"
#include "rapt/custom.h"
#include "rapt/formula.h"
#include "support/buffer.h"

namespace {

using oracle::Array;
using rapt::Distribution;
using support::Buffer;
using support::Case;
using support::CaseSpec;
using support::Int;
using support::distributed::long_spec;
using support::distributed::Result;
using support::distributed::run;
using support::distributed::Wants;

// What is added to a score, by definition.
double added(Int b, Int h, Int i, Int j, Int queries, Int keys) {
  return 0.3 * static_cast<double>(b) -
         0.2 * static_cast<double>(h) * static_cast<double>(j) / static_cast<double>(keys) +
         2 * static_cast<double>(i * j) / static_cast<double>(queries * keys);
}

bool is_visible(Int b, Int h, Int i, Int j, Int keys) { return i + 3 * b + h + keys > j + 40; }

struct Whole {
  static constexpr std::string_view formula = "q·k/√Dk + 0.3 batch − 0.2 head j/keys + 2ij/(queries keys)";
  static constexpr bool scaled = true;

  template <class N, class P, class At>
  N score(N raw, const P&, const At& at) const {
    using V = decltype(at.i);
    const auto number = [](std::int64_t n) { return V(static_cast<float>(n)); };
    return raw * at.scale + (V(0.3) * number(at.batch) - V(0.2) * number(at.head) * at.j / number(at.keys) +
                             V(2) * at.i * at.j / number(at.queries * at.keys));
  }
  template <class At>
  auto visible(const At& at) const {
    using V = decltype(at.i);
    return at.i + V(static_cast<float>(3 * at.batch + at.head + at.keys)) > at.j + V(40);
  }
  rapt::Visible visible_tile(const rapt::TileRange& range) const {
    return range.batch >= 0 && range.head >= 0 ? rapt::Visible::some : rapt::Visible::none;
  }
};

// A table by offset, whose middle row follows from the number of keys.
struct Table {
  static constexpr std::string_view formula = "q·k/√Dk + t[j−i+keys−1]";
  static constexpr bool scaled = true;
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "t", .role = rapt::Role::relative_value, .sizes = {rapt::kAny}}};

  std::int64_t index(std::int64_t offset, const rapt::TableShape& table) const { return offset + table.keys - 1; }
  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    return raw * at.scale + p[0];
  }
};

// The case, and the same with what the hooks do as a bias and a mask.
struct Both {
  Case own, described;

  explicit Both(const CaseSpec& spec, bool hides) : own(make_case(spec)), described(own) {
    oracle::Problem& p = described.problem;
    p.bias = Array({p.batch(), p.heads(), p.queries(), p.keys()});
    if (hides) p.mask.dense = Array(p.bias.shape);
    for (Int b = 0; b < p.batch(); ++b)
      for (Int h = 0; h < p.heads(); ++h)
        for (Int i = 0; i < p.queries(); ++i)
          for (Int j = 0; j < p.keys(); ++j) {
            p.bias.at(b, h, i, j) = added(b, h, i, j, p.queries(), p.keys());
            if (hides) p.mask.dense.at(b, h, i, j) = is_visible(b, h, i, j, p.keys()) ? 1 : 0;
          }
  }

  void check(const rapt::Score& score, Wants wants) const {
    wants.change = [&](rapt::AttendOptions& options) { options.score = score; };
    const oracle::Forward forward = oracle::forward(described.problem);
    const oracle::Gradients gradients = oracle::backward(described.problem, own.grad_out);
    std::vector<std::uint64_t> first;
    for (const int size : {1, 2, 3, 4, 8}) {
      SCOPED_TRACE(testing::Message() << size << " processes");
      const Result got = run(own, size, wants);
      if (testing::Test::HasFailure()) return;
      if (first.empty()) {
        const double bound = own.spec.dtype == rapt::Dtype::f64 ? 1e-11 : 1e-4;
        EXPECT_TRUE(support::agree(got.forward.out[0], forward.out[0], bound));
        EXPECT_TRUE(support::agree(got.backward.gradients.q, gradients.q, bound));
        EXPECT_TRUE(support::agree(got.backward.gradients.k, gradients.k, bound));
        EXPECT_TRUE(support::agree(got.backward.gradients.v[0], gradients.v[0], bound));
        first = got.bits();
      } else {
        EXPECT_TRUE(got.bits() == first);
      }
    }
  }
};

CaseSpec spec_of(rapt::Dtype dtype) {
  CaseSpec s = long_spec();
  s.dtype = dtype;
  s.queries = 130;
  return s;
}

const char* const kFormula = "raw*scale + 0.3*batch - 0.2*head*j/keys + 2*i*j/(queries*keys)";
const char* const kVisible = "i + 3*batch + head + keys > j + 40";

TEST(DistributedHooks, OwnMechanismsSeeTheWholeCall) {
  for (const rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::f64})
    for (const support::NormalizerKind normalizer :
         {support::NormalizerKind::softmax, support::NormalizerKind::sigmoid, support::NormalizerKind::sparsemax}) {
      CaseSpec s = spec_of(dtype);
      s.normalizer = normalizer;
      const Both both(s, true);
      both.check(rapt::custom(Whole{}), {Distribution::ring});
      both.check(rapt::custom(Whole{}), {Distribution::heads});
    }
}

TEST(DistributedHooks, LambdasSeeTheWholeCall) {
  const Both both(spec_of(rapt::Dtype::f64), false);
  const rapt::Score score = rapt::custom([](auto raw, const auto& at) { return Whole{}.score(raw, 0, at); });
  both.check(score, {Distribution::ring});
  both.check(score, {.threads = 3});
}

TEST(DistributedHooks, FormulasSeeTheWholeCall) {
  for (const rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::f64}) {
    const Both both(spec_of(dtype), true);
    const rapt::Score score = rapt::formula(kFormula, {.pair = {}, .visible = kVisible});
    both.check(score, {Distribution::ring});
    both.check(score, {Distribution::heads});
  }
}

TEST(DistributedHooks, InStepsToo) {
  const Both both(spec_of(rapt::Dtype::f32), true);
  Wants wants;
  wants.tags = false;
  both.check(rapt::custom(Whole{}), wants);
  both.check(rapt::formula(kFormula, {.pair = {}, .visible = kVisible}), wants);
}

// With gradients of the table, which has a row for every offset of the whole call.
TEST(DistributedHooks, TablesOfTheWholeCall) {
  CaseSpec s = spec_of(rapt::Dtype::f64);
  s.heads = s.key_heads = 2;
  const Case c = make_case(s);
  const Int rows = 2 * s.keys - 1;
  Array table({1, 1, 1, rows});
  for (Int n = 0; n < rows; ++n) table.at(0, 0, 0, n) = std::sin(static_cast<double>(n));
  const Buffer numbers(table, rapt::Dtype::f64);
  Case described = c;
  oracle::Problem& p = described.problem;
  p.bias = Array({1, 1, p.queries(), p.keys()});
  for (Int i = 0; i < p.queries(); ++i)
    for (Int j = 0; j < p.keys(); ++j) p.bias.at(0, 0, i, j) = table.at(0, 0, 0, j - i + p.keys() - 1);
  const oracle::Gradients gradients = oracle::backward(p, c.grad_out);
  Array by_offset(table.shape);
  for (Int i = 0; i < p.queries(); ++i)
    for (Int j = 0; j < p.keys(); ++j) by_offset.at(0, 0, 0, j - i + p.keys() - 1) += gradients.bias.at(0, 0, i, j);
  for (const rapt::Score& score : {rapt::custom(Table{}), rapt::formula("raw*scale + t[j-i+keys-1]")}) {
    std::vector<std::uint64_t> first;
    for (const int size : {1, 2, 3, 8}) {
      Wants wants{Distribution::ring};
      wants.change = [&](rapt::AttendOptions& options) {
        options.score = score;
        options.score.parameters = {{"t", std::as_const(numbers).view()}};
      };
      const Result got = run(c, size, wants);
      ASSERT_FALSE(testing::Test::HasFailure()) << size;
      if (first.empty()) {
        EXPECT_TRUE(support::agree(got.backward.gradients.parameters.at("t"), by_offset, 1e-11));
        EXPECT_TRUE(support::agree(got.backward.gradients.q, gradients.q, 1e-11));
        first = got.bits();
      } else {
        EXPECT_TRUE(got.bits() == first) << size;
      }
    }
  }
}

}  // namespace
