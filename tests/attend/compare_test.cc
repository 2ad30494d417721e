// The comparisons themselves: what they must accept, and that they notice small damage.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/checks.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using support::Case;
using support::CaseSpec;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A forward result as a perfect library would give it: the naive evaluation, rounded to the storage type.
support::ForwardResult perfect_forward(const Case& c) {
  const rapt::Dtype dtype = c.spec.dtype;
  const auto precision = dtype == rapt::Dtype::f64 ? oracle::Precision::exact : oracle::Precision::single;
  const oracle::Forward f = oracle::forward(c.problem, precision);
  support::ForwardResult r;
  r.out = f.out;
  for (Array& out : r.out)
    for (double& e : out.data) e = support::round_to(dtype, e);
  r.lse = f.lse;
  r.weights = f.weights;
  r.statistics = oracle::statistics(f, oracle::Normalizer::softmax, 3);
  return r;
}

class Comparison : public testing::TestWithParam<rapt::Dtype> {
 protected:
  static Case small() {
    CaseSpec spec;
    spec.dtype = GetParam();
    spec.batch = 2;
    spec.mask = support::MaskKind::dense;
    spec.bias = support::BiasKind::per_head;
    return make_case(spec);
  }
  // Far above the rounding of the type, far below the numbers.
  static double step() { return GetParam() == rapt::Dtype::f64 ? 1e-9 : GetParam() == rapt::Dtype::f32 ? 1e-4 : 0.05; }
};

TEST_P(Comparison, AcceptsNaiveArithmetic) {
  const Case c = small();
  EXPECT_TRUE(support::Expected(c).matches(perfect_forward(c)));
}

TEST_P(Comparison, NoticesOneWrongNumberAnywhere) {
  const Case c = small();
  const support::Expected expected(c);
  const auto rejected = [&](auto change) {
    support::ForwardResult r = perfect_forward(c);
    change(r);
    EXPECT_FALSE(expected.matches(r));
  };
  rejected([](auto& r) { r.out[0].data.back() += step(); });
  rejected([](auto& r) { r.out[0].data[100] = kNaN; });
  rejected([](auto& r) { r.out[0].data[100] = HUGE_VAL; });
  rejected([](auto& r) { r.lse.data[30] += step(); });
  rejected([](auto& r) { r.lse.data[17] = 0; });  // a row that sees nothing: −inf
  rejected([](auto& r) { r.weights.data[30] += step(); });
  rejected([](auto& r) { r.statistics.entropy.data[3] += step(); });
  rejected([](auto& r) { r.statistics.position.data[3] += 0.1; });
  rejected([](auto& r) { r.statistics.covariance.data[3] += 0.1; });
  rejected([](auto& r) { r.statistics.argmax[3] += 1; });
  rejected([](auto& r) { r.statistics.top_indices[3] = -1; });
  rejected([](auto& r) { r.statistics.top_weights.data[3] *= 0.9; });
  rejected([](auto& r) { r.damage = "a guard was written over"; });
}

TEST_P(Comparison, NoticesOneWrongGradient) {
  const Case c = small();
  const support::Expected expected(c, true);
  support::BackwardResult good;
  good.gradients = expected.gradients();
  EXPECT_TRUE(expected.matches(good));
  const auto rejected = [&](auto change) {
    support::BackwardResult r = good;
    change(r.gradients);
    EXPECT_FALSE(expected.matches(r));
  };
  const double wrong = 4 * step();
  rejected([&](auto& g) { g.q.data[5] += wrong; });
  rejected([&](auto& g) { g.k.data.back() -= wrong; });
  rejected([&](auto& g) { g.v[0].data[9] += wrong; });
  rejected([&](auto& g) { g.bias.data[50] += wrong; });
  rejected([&](auto& g) { g.q.data[0] = kNaN; });
}

std::string type_name(const testing::TestParamInfo<rapt::Dtype>& type) { return support::label(type.param); }

INSTANTIATE_TEST_SUITE_P(Types, Comparison, testing::ValuesIn(support::all_dtypes()), type_name);

TEST(Buffers, NoticeWritesOutsideAndElementsLeftOut) {
  for (support::Layout layout : {support::Layout::bhsd, support::Layout::bshd, support::Layout::gaps}) {
    support::Buffer buffer(rapt::Dtype::f32, {2, 2, 3, 5}, layout);
    EXPECT_TRUE(buffer.untouched());
    EXPECT_NE(buffer.damage(), "");
    buffer.set(Array({2, 2, 3, 5}));
    EXPECT_EQ(buffer.damage(), "");
    EXPECT_FALSE(buffer.untouched());
    static_cast<float*>(buffer.view().data)[-1] = 0;
    EXPECT_NE(buffer.damage(), "");
  }
  support::Buffer gaps(rapt::Dtype::bf16, {1, 1, 2, 3}, support::Layout::gaps);
  gaps.set(Array({1, 1, 2, 3}));
  static_cast<std::uint16_t*>(gaps.view().data)[3] = 0;  // right after the first row
  EXPECT_NE(gaps.damage(), "");
}

TEST(Storage, RoundsToNearestEven) {
  using rapt::Dtype;
  EXPECT_EQ(support::round_to(Dtype::bf16, 1 + 1.0 / 256), 1);
  EXPECT_EQ(support::round_to(Dtype::bf16, 1 + 3.0 / 256), 1 + 4.0 / 256);
  EXPECT_EQ(support::round_to(Dtype::f16, 1 + 1.0 / 2048), 1);
  EXPECT_EQ(support::round_to(Dtype::f16, 65519), 65504);
  EXPECT_EQ(support::round_to(Dtype::f16, 65520), HUGE_VAL);
  EXPECT_EQ(support::round_to(Dtype::f16, std::ldexp(1.0, -25)), 0);
  EXPECT_EQ(support::round_to(Dtype::f16, std::ldexp(1.5, -25)), std::ldexp(1.0, -24));
}

// The library's conversions against the tests' own, for every number of 16 bits.
TEST(Storage, LibraryConversionsAgree) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    for (rapt::Dtype dtype : {rapt::Dtype::bf16, rapt::Dtype::f16}) {
      const bool is_bf16 = dtype == rapt::Dtype::bf16;
      const double want = support::load(dtype, reinterpret_cast<const std::byte*>(&half));
      const float got = is_bf16 ? to_float(rapt::BFloat16{half}) : to_float(rapt::Float16{half});
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << bits;
        continue;
      }
      ASSERT_EQ(static_cast<double>(got), want) << bits;
      ASSERT_EQ(is_bf16 ? rapt::to_bfloat16(got).bits : rapt::to_float16(got).bits, half) << bits;
    }
  }
  support::Random random(3);
  for (int n = 0; n < 20000; ++n) {
    const float x = static_cast<float>(random.normal() * std::exp(random.uniform(-20, 12)));
    ASSERT_EQ(to_float(rapt::to_bfloat16(x)), support::round_to(rapt::Dtype::bf16, x)) << x;
    ASSERT_EQ(to_float(rapt::to_float16(x)), support::round_to(rapt::Dtype::f16, x)) << x;
  }
}

}  // namespace
