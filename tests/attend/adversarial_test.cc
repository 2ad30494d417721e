// Values that break careless kernels: NaN, infinities, scores of 1e30; and everything that must not be affected by
// them.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cpu/x86/bf16.h"
#include "oracle/positions.h"
#include "support/checks.h"
#include "support/device.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using support::Call;
using support::Case;
using support::CaseSpec;
using support::Int;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr rapt::Path kPaths[] = {rapt::Path::automatic, rapt::Path::generic, rapt::Path::reference};

const char* label(rapt::Path path) {
  return path == rapt::Path::automatic ? "automatic path"
         : path == rapt::Path::generic ? "generic path"
                                       : "reference path";
}

// The row of every head either has NaN or is unchanged.
enum class Row { same, spoilt, anything };

template <class F>
void expect_rows(const Array& before, const Array& after, rapt::Dtype dtype, F expected, const char* what,
                 double factor = 1) {
  const double allowed = factor * support::rounding_of(dtype) * std::max(1.0, support::largest(before));
  for (Int b = 0; b < before.shape[0]; ++b)
    for (Int h = 0; h < before.shape[1]; ++h)
      for (Int i = 0; i < before.shape[2]; ++i) {
        const Row wish = expected(i);
        bool has_nan = false;
        double off = 0;
        for (Int d = 0; d < before.shape[3]; ++d) {
          const double x = after.at(b, h, i, d), y = before.at(b, h, i, d);
          has_nan = has_nan || std::isnan(x);
          if (x != y) off = std::max(off, std::isnan(x) ? HUGE_VAL : std::abs(x - y));
        }
        if (wish == Row::same) {
          ASSERT_LE(off, allowed) << what << ": row " << i << " of head " << h << " changed";
        } else if (wish == Row::spoilt) {
          ASSERT_TRUE(has_nan) << what << ": row " << i << " of head " << h << " hides a NaN";
        }
      }
}

class Containment : public testing::TestWithParam<support::MechanismAndType> {
 protected:
  static rapt::Dtype dtype() { return std::get<1>(GetParam()); }

  static CaseSpec spec(support::MaskKind mask) {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = dtype();
    s.queries = 45;
    s.keys = 45;
    s.key_dim = 5;
    // What a device's copy engine takes.
    if (dtype() == rapt::Dtype::bf16 && !support::on_cpu()) {
      s.layout = support::Layout::aligned;
      s.key_dim = 8;
      s.value_dims = {8};
    }
    s.mask = mask;
    return s;
  }

  struct Results {
    support::ForwardResult forward;
    support::BackwardResult backward;
  };
  static Results run(const Case& c, rapt::Path path) {
    Call call(c);
    call.options.path = path;
    return {call.forward(), call.backward()};
  }

  // Whether the scores of this mechanism read q and k.
  static bool reads(const Case& c) {
    if (c.mechanism->has_form()) return false;
    return true;
  }
};

TEST_P(Containment, NaNInOneQuery) {
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(label(path));
    Case c = make_case(spec(support::MaskKind::top_left));
    const Results before = run(c, path);
    const Int row = 20;
    for (Int h = 0; h < 2; ++h) c.problem.q.at(0, h, row, 2) = kNaN;
    const Results after = run(c, path);
    const Row spoilt = reads(c) ? Row::spoilt : Row::same;
    expect_rows(
        before.forward.out[0], after.forward.out[0], dtype(), [&](Int i) { return i == row ? spoilt : Row::same; },
        "out");
    expect_rows(
        before.forward.lse, after.forward.lse, dtype(), [&](Int i) { return i == row ? spoilt : Row::same; }, "lse");
    expect_rows(
        before.backward.gradients.q, after.backward.gradients.q, dtype(),
        [&](Int i) { return i == row ? Row::anything : Row::same; }, "dq");
    // Query 20 does not see the keys after it.
    const auto later = [&](Int j) { return j > row ? Row::same : spoilt; };
    expect_rows(before.backward.gradients.v[0], after.backward.gradients.v[0], dtype(), later, "dv");
    const auto later_keys = [&](Int j) { return j > row ? Row::same : Row::anything; };
    expect_rows(before.backward.gradients.k, after.backward.gradients.k, dtype(), later_keys, "dk");
  }
}

TEST_P(Containment, NaNAndInfinityInOneKey) {
  for (double bad : {kNaN, HUGE_VAL, -HUGE_VAL})
    for (rapt::Path path : kPaths) {
      SCOPED_TRACE(testing::Message() << label(path) << ", " << bad);
      Case c = make_case(spec(support::MaskKind::top_left));
      const Results before = run(c, path);
      const Int key = 20;
      for (Int h = 0; h < 2; ++h)
        for (Int d = 0; d < c.spec.key_dim; ++d) c.problem.k.at(0, h, key, d) = bad;
      const Results after = run(c, path);
      // An infinite key may win or lose; only a NaN must show.
      const Row seen =
          std::isnan(bad) && reads(c) && !c.problem.settings.count("content") ? Row::spoilt : Row::anything;
      const auto rows = [&](Int i) { return i < key ? Row::same : seen; };
      expect_rows(before.forward.out[0], after.forward.out[0], dtype(), rows, "out");
      const auto loose = [&](Int i) { return i < key ? Row::same : Row::anything; };
      expect_rows(before.backward.gradients.q, after.backward.gradients.q, dtype(), loose, "dq");
    }
}

TEST_P(Containment, NaNAndInfinityInOneValue) {
  for (support::MaskKind mask : {support::MaskKind::top_left, support::MaskKind::dense_shared})
    for (double bad : {kNaN, HUGE_VAL})
      for (rapt::Path path : kPaths) {
        SCOPED_TRACE(testing::Message() << label(path) << ", " << label(mask) << ", " << bad);
        Case c = make_case(spec(mask));
        const Results before = run(c, path);
        Int key = 20;
        // Under the dense mask a key that no query sees.
        while (mask == support::MaskKind::dense_shared && oracle::visible(c.problem, 0, 0, 0, key)) ++key;
        for (Int h = 0; h < 2; ++h) c.problem.v[0].at(0, h, key, 3) = bad;
        const Results after = run(c, path);
        const auto rows = [&](Int i) { return oracle::visible(c.problem, 0, 0, i, key) ? Row::anything : Row::same; };
        expect_rows(before.forward.out[0], after.forward.out[0], dtype(), rows, "out");
        expect_rows(before.backward.gradients.q, after.backward.gradients.q, dtype(), rows, "dq");
        // dv does not depend on v.
        expect_rows(
            before.backward.gradients.v[0], after.backward.gradients.v[0], dtype(), [](Int) { return Row::same; },
            "dv");
      }
}

TEST_P(Containment, NaNInOneRowOfTheOutputGradient) {
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(label(path));
    Case c = make_case(spec(support::MaskKind::top_left));
    const Results before = run(c, path);
    const Int row = 20;
    for (Int h = 0; h < 2; ++h)
      for (Int d = 0; d < 8; ++d) c.grad_out[0].at(0, h, row, d) = kNaN;
    const Results after = run(c, path);
    expect_rows(
        before.backward.gradients.q, after.backward.gradients.q, dtype(),
        [&](Int i) { return i == row ? Row::anything : Row::same; }, "dq");
    expect_rows(
        before.backward.gradients.v[0], after.backward.gradients.v[0], dtype(),
        [&](Int j) { return j > row ? Row::same : Row::spoilt; }, "dv");
    expect_rows(
        before.backward.gradients.k, after.backward.gradients.k, dtype(),
        [&](Int j) { return j > row ? Row::same : Row::anything; }, "dk");
  }
}

TEST_P(Containment, HiddenKeysMayHoldAnything) {
  // Hidden by the key lengths, or by a mask that hides them from every query.
  for (const bool dense : {false, true})
    for (rapt::Path path : kPaths) {
      SCOPED_TRACE(std::string(label(path)) + (dense ? " dense" : ""));
      Case c = make_case(spec(support::MaskKind::none));
      if (dense) {
        c.problem.mask.dense = Array({1, 1, 1, c.spec.keys});
        for (Int j = 0; j < 31; ++j) c.problem.mask.dense.at(0, 0, 0, j) = 1;
      } else {
        c.problem.mask.key_lengths = {31};
      }
      const Results before = run(c, path);
      for (Int h = 0; h < 2; ++h)
        for (Int j = 31; j < 45 && j < c.spec.keys; ++j) {
          for (Int d = 0; d < c.spec.key_dim; ++d) c.problem.k.at(0, h, j, d) = kNaN;
          for (Int d = 0; d < 8; ++d) c.problem.v[0].at(0, h, j, d) = d % 2 ? kNaN : HUGE_VAL;
        }
      const Results after = run(c, path);
      const auto same = [](Int) { return Row::same; };
      expect_rows(before.forward.out[0], after.forward.out[0], dtype(), same, "out");
      expect_rows(before.backward.gradients.q, after.backward.gradients.q, dtype(), same, "dq");
      expect_rows(before.backward.gradients.v[0], after.backward.gradients.v[0], dtype(), same, "dv");
      expect_rows(before.backward.gradients.k, after.backward.gradients.k, dtype(), same, "dk");
      // One number for all pairs: with pair products, it contains the rounding of every row's output.
      const double factor = dtype() == rapt::Dtype::bf16 && rapt::active_bf16(rapt::active_isa()) ? 4 : 1;
      for (const auto& [name, value] : before.backward.gradients.parameters)
        expect_rows(value, after.backward.gradients.parameters.at(name), dtype(), same, name.c_str(), factor);
    }
}

INSTANTIATE_TEST_SUITE_P(Registry, Containment,
                         testing::Combine(testing::ValuesIn(support::registered_names()),
                                          testing::Values(rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16)),
                         support::mechanism_and_type);

class Extremes : public testing::TestWithParam<rapt::Dtype> {
 protected:
  static Case case_of(const CaseSpec& given) {
    CaseSpec s = given;
    s.dtype = GetParam();
    return make_case(s);
  }
  static void expect_finite(const support::BackwardResult& r) {
    EXPECT_EQ(r.damage, "");
    const auto finite = [](const Array& x, const char* name) {
      for (double e : x.data) ASSERT_TRUE(std::isfinite(e)) << name;
    };
    finite(r.gradients.q, "dq");
    finite(r.gradients.k, "dk");
    finite(r.gradients.v[0], "dv");
  }
};

TEST_P(Extremes, ScoresOf1e30DoNotOverflow) {
  for (double scale : {1e29, -1e29, 3e27}) {
    CaseSpec s;
    s.queries = 37;
    s.keys = 70;
    s.scale = scale;
    const Case c = case_of(s);
    const support::Expected expected(c, false);
    for (rapt::Path path : kPaths) {
      SCOPED_TRACE(label(path));
      Call call(c);
      call.options.path = path;
      const support::ForwardResult r = call.forward();
      EXPECT_EQ(r.damage, "");
      // Scores differ by 1e20 or more, so softmax is the maximum.
      for (Int h = 0; h < 2; ++h)
        for (Int i = 0; i < 37; ++i) {
          Int best = 0;
          for (Int j = 0; j < 70; ++j)
            if (expected.forward().scores.at(0, h, i, j) > expected.forward().scores.at(0, h, i, best)) best = j;
          for (Int d = 0; d < 8; ++d) ASSERT_NEAR(r.out[0].at(0, h, i, d), c.problem.v[0].at(0, h, best, d), 1e-6);
          ASSERT_NEAR(r.lse.at(0, h, i, 0) / expected.forward().lse.at(0, h, i, 0), 1, 1e-5);
        }
    }
  }
}

// The largest score comes late and values are as large as possible: no intermediate result may overflow.
TEST_P(Extremes, LargeValuesDoNotOverflow) {
  CaseSpec s;
  s.heads = 1;
  s.queries = 3;
  s.keys = 70;
  s.key_dim = 1;
  s.scale = 1;
  Case c = case_of(s);
  const double value = GetParam() == rapt::Dtype::f64 ? 1e306 : GetParam() == rapt::Dtype::f16 ? 6e4 : 1e36;
  for (Int i = 0; i < 3; ++i) c.problem.q.at(0, 0, i, 0) = 1;
  for (Int j = 0; j < 70; ++j) {
    c.problem.k.at(0, 0, j, 0) = j == 69 ? 7.75 : 0;
    for (Int d = 0; d < 8; ++d) c.problem.v[0].at(0, 0, j, d) = support::round_to(GetParam(), value);
  }
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(label(path));
    Call call(c);
    call.options.path = path;
    const support::ForwardResult r = call.forward();
    for (double e : r.out[0].data) ASSERT_NEAR(e / value, 1, 0.01);
  }
}

TEST_P(Extremes, GradientsAtLargeScoresStayFinite) {
  CaseSpec s;
  s.queries = 20;
  s.keys = 30;
  s.scale = GetParam() == rapt::Dtype::f16 ? 100 : 1e15;  // gradients have the scale as a factor, and f16 ends at 65504
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(label(path));
    Call call(case_of(s));
    call.options.path = path;
    expect_finite(call.backward());
  }
}

TEST_P(Extremes, InfiniteBiasTakesAllTheWeight) {
  CaseSpec s;
  s.queries = 40;
  s.keys = 50;
  s.bias = support::BiasKind::full;
  Case c = case_of(s);
  // Row 3: one infinite key; row 4: three, in different tiles; row 5: all of them.
  c.problem.bias.at(0, 0, 3, 7) = HUGE_VAL;
  for (Int j : {2, 17, 49}) c.problem.bias.at(0, 0, 4, j) = HUGE_VAL;
  for (Int j = 0; j < 50; ++j) c.problem.bias.at(0, 0, 5, j) = HUGE_VAL;
  support::Expected expected(c, true);
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(label(path));
    Call call(c);
    call.options.path = path;
    support::ForwardWants wants;
    wants.lse = false;
    wants.weights = true;
    EXPECT_TRUE(expected.matches(call.forward(wants)));
    const support::ForwardResult r = call.forward();
    const double most =
        GetParam() == rapt::Dtype::f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
    for (Int i : {3, 4, 5}) EXPECT_GE(r.lse.at(0, 0, i, 0), most);
    EXPECT_TRUE(expected.matches(call.backward()));
  }
}

TEST_P(Extremes, InfiniteScoresShareTheWeight) {
  CaseSpec s;
  s.queries = 5;
  s.keys = 40;
  s.heads = 1;
  s.mechanism = "dot";
  Case c = case_of(s);
  for (double& e : c.problem.q.data) e = std::abs(e) + 0.5;
  for (Int j : {3, 30})
    for (Int d = 0; d < 8; ++d) c.problem.k.at(0, 0, j, d) = HUGE_VAL;
  for (double& e : c.problem.q.data) e = support::round_to(GetParam(), e);
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(label(path));
    Call call(c);
    call.options.path = path;
    const support::ForwardResult r = call.forward();
    for (Int i = 0; i < 5; ++i)
      for (Int d = 0; d < 8; ++d)
        EXPECT_NEAR(r.out[0].at(0, 0, i, d), 0.5 * (c.problem.v[0].at(0, 0, 3, d) + c.problem.v[0].at(0, 0, 30, d)),
                    0.01);
  }
}

TEST_P(Extremes, MinusInfinityInTheBiasIsAMask) {
  CaseSpec s;
  s.batch = 2;
  s.queries = 33;
  s.keys = 41;
  s.mask = support::MaskKind::dense;
  s.bias = support::BiasKind::full;
  const Case masked = case_of(s);
  Case biased = masked;
  biased.problem.mask = {};
  for (std::size_t n = 0; n < biased.problem.bias.data.size(); ++n)
    if (masked.problem.mask.dense.data[n] == 0) biased.problem.bias.data[n] = -HUGE_VAL;
  const support::Expected expected(masked, true);
  support::ForwardWants wants;
  wants.weights = wants.statistics = true;
  wants.top_k = 2;
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(label(path));
    Call call(biased);
    call.options.path = path;
    EXPECT_TRUE(expected.matches(call.forward(wants)));
    EXPECT_TRUE(expected.matches(call.backward()));
  }
}

// Rows so short that the inverse of their length is no number of their type.
TEST_P(Extremes, TheShortestVectorsHaveACosine) {
  if (GetParam() == rapt::Dtype::f16) GTEST_SKIP() << "f16 has no such numbers";
  CaseSpec s;
  s.mechanism = "cosine";
  s.queries = 7;
  s.keys = 9;
  Case c = case_of(s);
  const double tiny = GetParam() == rapt::Dtype::f64 ? 1e-300 : 1e-39;
  for (Int d = 0; d < 8; ++d) {
    c.problem.q.at(0, 0, 4, d) = support::round_to(GetParam(), tiny * (d + 1));
    c.problem.k.at(0, 1, 6, d) = support::round_to(GetParam(), tiny * (8 - d));
  }
  const support::Expected expected(c, false);
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(label(path));
    Call call(c);
    call.options.path = path;
    EXPECT_TRUE(expected.matches(call.forward()));
  }
}

TEST_P(Extremes, ZeroVectorsHaveCosineZero) {
  CaseSpec s;
  s.mechanism = "cosine";
  Case c = case_of(s);
  for (Int d = 0; d < 8; ++d) c.problem.q.at(0, 0, 4, d) = c.problem.k.at(0, 1, 6, d) = 0;
  for (rapt::Path path : kPaths) {
    SCOPED_TRACE(label(path));
    Call call(c);
    call.options.path = path;
    EXPECT_TRUE(support::Expected(c).matches(call.forward()));
    expect_finite(call.backward());
  }
}

std::string type_name(const testing::TestParamInfo<rapt::Dtype>& type) { return support::label(type.param); }

INSTANTIATE_TEST_SUITE_P(Types, Extremes, testing::ValuesIn(support::all_dtypes()), type_name);

}  // namespace
