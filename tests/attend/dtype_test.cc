// Storage types and views: every 16-bit pattern, the rounding of everything between them, and shapes.

#include "rapt/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "backends/host/storage.h"
#include "rapt/error.h"
#include "rapt/view.h"

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value of a 16-bit number, from its fields alone.
double meaning(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(bits) & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? std::nan("") : sign * static_cast<double>(kInfinity);
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

struct Half {
  using Stored = rapt::Float16;
  static constexpr int kExponent = 5, kMantissa = 10;
  static Stored from(float x) { return rapt::to_float16(x); }
};

struct Brain {
  using Stored = rapt::BFloat16;
  static constexpr int kExponent = 8, kMantissa = 7;
  static Stored from(float x) { return rapt::to_bfloat16(x); }
};

template <class Type>
class SixteenBits : public testing::Test {
 public:
  static float value(std::uint32_t bits) {
    return rapt::to_float(typename Type::Stored{static_cast<std::uint16_t>(bits)});
  }
  static std::uint32_t bits(float x) { return Type::from(x).bits; }
  static constexpr std::uint32_t infinity() { return ((1u << Type::kExponent) - 1) << Type::kMantissa; }
};

using Types = testing::Types<Half, Brain>;
TYPED_TEST_SUITE(SixteenBits, Types);

TYPED_TEST(SixteenBits, EveryPatternMeansWhatItsFieldsSay) {
  for (std::uint32_t n = 0; n < 65536; ++n) {
    const double want = meaning(n, TypeParam::kExponent, TypeParam::kMantissa);
    const float got = this->value(n);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << n;
    } else {
      ASSERT_EQ(static_cast<double>(got), want) << n;
    }
  }
}

TYPED_TEST(SixteenBits, EveryPatternComesBack) {
  for (std::uint32_t n = 0; n < 65536; ++n) {
    const float x = this->value(n);
    if (std::isnan(x)) {
      const std::uint32_t back = this->bits(x);
      ASSERT_TRUE(std::isnan(this->value(back))) << n;
      ASSERT_EQ(back & 0x8000, n & 0x8000) << n;
    } else {
      ASSERT_EQ(this->bits(x), n);
    }
  }
}

// Between two neighbours: the nearer one, the even one halfway. Subnormal numbers included.
TYPED_TEST(SixteenBits, RoundsToNearestTiesToEven) {
  for (std::uint32_t n = 0; n + 1 < this->infinity(); ++n) {
    const float low = this->value(n), high = this->value(n + 1);
    const float middle = low + (high - low) / 2;
    // A float lies between any two of them: the middle is exact.
    ASSERT_LT(low, middle);
    ASSERT_LT(middle, high);
    const std::uint32_t even = n % 2 == 0 ? n : n + 1;
    ASSERT_EQ(this->bits(middle), even) << n;
    ASSERT_EQ(this->bits(std::nextafter(middle, low)), n) << n;
    ASSERT_EQ(this->bits(std::nextafter(middle, high)), n + 1) << n;
    ASSERT_EQ(this->bits(-middle), even | 0x8000) << n;
  }
}

TYPED_TEST(SixteenBits, OverflowsFromHalfwayToTheNextPower) {
  const std::uint32_t largest = this->infinity() - 1;
  const float step = this->value(largest) - this->value(largest - 1);
  const float halfway = this->value(largest) + step / 2;
  EXPECT_EQ(this->bits(std::nextafter(halfway, 0.0f)), largest);
  EXPECT_EQ(this->bits(halfway), this->infinity());
  EXPECT_EQ(this->bits(-halfway), this->infinity() | 0x8000);
  EXPECT_EQ(this->bits(kInfinity), this->infinity());
  EXPECT_EQ(this->bits(std::numeric_limits<float>::max()), this->infinity());
}

TYPED_TEST(SixteenBits, TinyNumbersKeepTheirSign) {
  const float smallest = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(this->bits(smallest), 0u);
  EXPECT_EQ(this->bits(-smallest), 0x8000u);
  EXPECT_EQ(this->bits(-0.0f), 0x8000u);
}

// A NaN whose payload lies only in the dropped bits must not become an infinity.
TYPED_TEST(SixteenBits, EveryNaNStaysNaN) {
  for (const std::uint32_t nan : {0x7f800001u, 0x7fc00000u, 0xff800001u, 0xffffffffu, 0x7f80ffffu})
    EXPECT_TRUE(std::isnan(this->value(this->bits(std::bit_cast<float>(nan))))) << std::hex << nan;
}

// Any float lies as near to its rounded value as to that value's neighbours.
TYPED_TEST(SixteenBits, RandomFloatsGoToTheNearest) {
  std::mt19937 random(7);
  for (int n = 0; n < 200000; ++n) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(x)) continue;
    const std::uint32_t rounded = this->bits(x);
    const std::uint32_t magnitude = rounded & 0x7fff;
    ASSERT_EQ(rounded >> 15, std::signbit(x) ? 1u : 0u);
    if (magnitude == this->infinity()) continue;
    const double error = std::abs(static_cast<double>(this->value(rounded)) - static_cast<double>(x));
    for (const std::uint32_t other : {magnitude - 1, magnitude + 1}) {
      if (other > 0x7fff || other == this->infinity()) continue;
      ASSERT_LE(error, std::abs(static_cast<double>(this->value(other)) - std::abs(static_cast<double>(x)))) << x;
    }
  }
}

TEST(Dtype, Names) {
  EXPECT_STREQ(rapt::name_of(rapt::Dtype::f32), "f32");
  EXPECT_STREQ(rapt::name_of(rapt::Dtype::f64), "f64");
  EXPECT_STREQ(rapt::name_of(rapt::Dtype::bf16), "bf16");
  EXPECT_STREQ(rapt::name_of(rapt::Dtype::f16), "f16");
}

TEST(Storage, RowsOfEveryTypeAndStride) {
  const double row[3] = {1.5, -2, 0.25};
  for (const rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::f64, rapt::Dtype::bf16, rapt::Dtype::f16}) {
    alignas(8) unsigned char bytes[8 * 20] = {};
    const rapt::MatrixRef matrix{bytes, dtype, 5};
    rapt::store_row(row, 3, matrix, 2);
    float back[5] = {9, 9, 9, 9, 9};
    rapt::load_row(matrix, 2, 3, back);
    EXPECT_EQ(back[0], 1.5f);
    EXPECT_EQ(back[1], -2.0f);
    EXPECT_EQ(back[2], 0.25f);
    EXPECT_EQ(back[3], 9.0f);
    double before[5];
    rapt::load_row(matrix, 1, 5, before);
    for (const double x : before) EXPECT_EQ(x, 0);
  }
}

TEST(Storage, ArraysOfAnyStrides) {
  const double numbers[6] = {1, 2, 3, 4, 5, 6};
  float memory[12];
  std::fill(std::begin(memory), std::end(memory), -1.0f);
  // [2, 3] stored by columns, with a gap after each number.
  const rapt::View view{memory, rapt::Dtype::f32, {1, 1, 2, 3}, {0, 0, 2, 4}};
  rapt::store_array(numbers, view);
  const float want[12] = {1, -1, 4, -1, 2, -1, 5, -1, 3, -1, 6, -1};
  for (int n = 0; n < 12; ++n) EXPECT_EQ(memory[n], want[n]) << n;
  rapt::store_zeros(view);
  for (int n = 0; n < 12; ++n) EXPECT_EQ(memory[n], n % 2 == 0 ? 0.0f : -1.0f) << n;
}

TEST(View, Shapes) {
  EXPECT_EQ(rapt::right_aligned({16, 64}), (rapt::Shape{1, 1, 16, 64}));
  EXPECT_EQ(rapt::right_aligned({2, 4, 16, 64}), (rapt::Shape{2, 4, 16, 64}));
  EXPECT_EQ(rapt::contiguous_strides({2, 4, 16, 64}), (rapt::Shape{4096, 1024, 64, 1}));
  EXPECT_EQ(rapt::to_string(rapt::Shape{2, 4, 16, 64}), "[2, 4, 16, 64]");
  EXPECT_EQ(rapt::element_count({2, 4, 16, 64}), 8192);
  EXPECT_EQ(rapt::element_count({2, 0, 16, 64}), 0);
}

TEST(View, SizesFromASpan) {
  float memory[24] = {};
  const std::vector<std::int64_t> sizes{2, 3, 4};
  const rapt::View view = rapt::view(memory, sizes);
  EXPECT_EQ(view.data, memory);
  EXPECT_EQ(view.shape, (rapt::Shape{1, 2, 3, 4}));
  EXPECT_EQ(view.strides, rapt::view(memory, {2, 3, 4}).strides);
  const float* constant = memory;
  const std::array<std::int64_t, 2> two{6, 4};
  const rapt::ConstView rows = rapt::view(constant, two);
  EXPECT_EQ(rows.shape, (rapt::Shape{1, 1, 6, 4}));
  EXPECT_THROW(rapt::view(memory, std::span<const std::int64_t>{}), rapt::Error);
  EXPECT_THROW(rapt::view(memory, std::vector<std::int64_t>(5, 1)), rapt::Error);
}

TEST(View, BadShapesThrow) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 32;
  EXPECT_THROW(rapt::right_aligned({}), rapt::Error);
  EXPECT_THROW(rapt::right_aligned({1, 2, 3, 4, 5}), rapt::Error);
  EXPECT_THROW(rapt::right_aligned({2, -1}), rapt::Error);
  EXPECT_THROW(rapt::element_count({1, 1, -1, 2}), rapt::Error);
  EXPECT_THROW(rapt::element_count({1, kHuge, kHuge, 1}), rapt::Error);
  EXPECT_THROW(rapt::contiguous_strides({1, kHuge, kHuge, kHuge}), rapt::Error);
  EXPECT_EQ(rapt::element_count({1, kHuge / 4, kHuge, 1}), std::int64_t{1} << 62);
}

}  // namespace
