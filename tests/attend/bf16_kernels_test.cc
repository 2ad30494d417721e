// Packing of bf16 rows for pair products, and the products, against plain loops.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cpu/x86/bf16.h"
#include "support/call.h"
#include "support/device.h"

namespace {

using rapt::kTileKeys;
using Words = std::vector<std::uint32_t>;
using Numbers = std::vector<std::uint16_t>;

class Bf16Kernels : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (GetParam() >= rapt::available_bf16().count) GTEST_SKIP() << "this processor has fewer";
  }
  static const rapt::Bf16Kernels& kernels() { return *rapt::available_bf16().list[GetParam()]; }
};

Numbers rows_of(std::int64_t rows, std::int64_t stride) {
  Numbers numbers(static_cast<std::size_t>(rows * stride));
  for (std::size_t n = 0; n < numbers.size(); ++n) numbers[n] = static_cast<std::uint16_t>(0x3F00 + n % 251);
  return numbers;
}

std::size_t at(std::int64_t row, std::int64_t stride, std::int64_t col) {
  return static_cast<std::size_t>(row * stride + col);
}

TEST_P(Bf16Kernels, RowsSideBySide) {
  for (std::int64_t rows : {1, 2, 7, 64})
    for (std::int64_t cols : {1, 15, 16, 17, 33, 64}) {
      const std::int64_t stride = cols + 5, padded = (rows + 15) / 16 * 16, to_stride = (cols + 15) / 16 * 16;
      const Numbers from = rows_of(rows, stride);
      Words to(static_cast<std::size_t>(padded / 2 * to_stride + 1), 0xABCDEF01);
      kernels().interleave_rows(from.data(), stride, rows, cols, padded, to.data(), to_stride);
      const auto number = [&](std::int64_t r, std::int64_t c) {
        return r < rows && c < cols ? std::uint32_t{from[at(r, stride, c)]} : 0U;
      };
      for (std::int64_t r = 0; r < padded; r += 2)
        for (std::int64_t c = 0; c < to_stride; ++c)
          ASSERT_EQ(to[at(r / 2, to_stride, c)], number(r, c) | number(r + 1, c) << 16U)
              << rows << " x " << cols << " at " << r << ", " << c;
      ASSERT_EQ(to.back(), 0xABCDEF01) << "past the end";
    }
}

// As rows of A, or as columns of words where those are read.
TEST_P(Bf16Kernels, ArrangedColumns) {
  for (std::int64_t rows : {1, 31, 64})
    for (std::int64_t cols : {1, 16, 24, 40}) {
      const std::int64_t stride = cols + 3, padded = (cols + 15) / 16 * 16;
      const Numbers from = rows_of(rows, stride);
      Numbers to(static_cast<std::size_t>(padded * kTileKeys + 1), 0xABCD);
      kernels().arrange_columns(from.data(), stride, rows, cols, padded, to.data());
      const bool exact = kernels().exact;
      for (std::int64_t c = 0; c < padded; ++c)
        for (std::int64_t r = 0; r < (exact ? (rows + 1) / 2 * 2 : kTileKeys); ++r)
          ASSERT_EQ(to[exact ? at(r / 2, 2 * padded, 2 * c + r % 2) : at(c, kTileKeys, r)],
                    r < rows && c < cols ? from[at(r, stride, c)] : 0)
              << rows << " x " << cols << " at " << r << ", " << c;
      ASSERT_EQ(to.back(), 0xABCD) << "past the end";
    }
}

TEST_P(Bf16Kernels, CopiedRows) {
  for (std::int64_t rows : {1, 3})
    for (std::int64_t cols : {1, 31, 32, 33, 70})
      for (std::int64_t to_stride : {cols, cols + 1, (cols + 31) / 32 * 32}) {
        const std::int64_t stride = cols + 3;
        const Numbers from = rows_of(rows, stride);
        Numbers to(static_cast<std::size_t>(rows * to_stride + 1), 0xABCD);
        kernels().copy_rows(from.data(), stride, rows, cols, to.data(), to_stride);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < to_stride; ++c)
            ASSERT_EQ(to[at(r, to_stride, c)], c < cols ? from[at(r, stride, c)] : 0)
                << rows << " x " << cols << " at " << r << ", " << c;
        ASSERT_EQ(to.back(), 0xABCD) << "past the end";
      }
}

TEST_P(Bf16Kernels, TransposedWords) {
  for (std::int64_t rows : {16, 32, 64})
    for (std::int64_t cols : {16, 48}) {
      const std::int64_t stride = cols + 16, to_stride = rows + 16;
      Words from(static_cast<std::size_t>(rows * stride)), to(static_cast<std::size_t>(cols * to_stride), 9);
      for (std::size_t n = 0; n < from.size(); ++n) from[n] = static_cast<std::uint32_t>(n) + 100;
      kernels().transpose_words(from.data(), stride, rows, cols, to.data(), to_stride);
      for (std::int64_t c = 0; c < cols; ++c)
        for (std::int64_t r = 0; r < to_stride; ++r)
          ASSERT_EQ(to[at(c, to_stride, r)], r < rows ? from[at(r, stride, c)] : 9U) << r << ", " << c;
    }
}

// Pairs of adjacent numbers of a row become words of a column; what is not there is neither read nor anything but zero.
TEST_P(Bf16Kernels, TransposedPairs) {
  for (std::int64_t rows : {1, 15, 16, 21, 64})
    for (std::int64_t cols : {1, 2, 31, 32, 33, 56, 96}) {
      const std::int64_t stride = cols + 3, padded_rows = (rows + 15) / 16 * 16, padded_cols = (cols + 31) / 32 * 32;
      const std::int64_t to_stride = padded_rows + 16;
      Numbers from(static_cast<std::size_t>(rows * stride), 0xFFFF);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c)
          from[at(r, stride, c)] = static_cast<std::uint16_t>(0x3F00 + r * 97 + c);
      Words to(static_cast<std::size_t>(padded_cols / 2 * to_stride), 9);
      kernels().transpose_pairs(from.data(), stride, rows, cols, padded_rows, padded_cols, to.data(), to_stride);
      const auto number = [&](std::int64_t r, std::int64_t c) {
        return r < rows && c < cols ? std::uint32_t{from[at(r, stride, c)]} : 0U;
      };
      for (std::int64_t w = 0; w < padded_cols / 2; ++w)
        for (std::int64_t r = 0; r < to_stride; ++r)
          ASSERT_EQ(to[at(w, to_stride, r)], r < padded_rows ? number(r, 2 * w) | number(r, 2 * w + 1) << 16U : 9U)
              << rows << " x " << cols << " at " << w << ", " << r;
    }
}

// As rows are stored anywhere else: to nearest, ties to even; what follows a row is left alone.
TEST_P(Bf16Kernels, StoredRows) {
  for (std::int64_t cols : {1, 15, 16, 17, 31, 32, 33, 56, 70}) {
    const std::int64_t rows = 3, stride = cols + 1, to_stride = cols + 2;
    std::vector<float> from(static_cast<std::size_t>(rows * stride));
    for (std::size_t n = 0; n < from.size(); ++n) from[n] = (1 + static_cast<float>(n) / 512) * (n % 2 == 0 ? 1 : -1);
    from[0] = HUGE_VALF;
    Numbers to(static_cast<std::size_t>(rows * to_stride), 0xABCD);
    kernels().store_rows(from.data(), rows, cols, stride, to.data(), to_stride);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < to_stride; ++c)
        ASSERT_EQ(to[at(r, to_stride, c)], c < cols ? rapt::to_bfloat16(from[at(r, stride, c)]).bits : 0xABCD)
            << cols << ": " << r << ", " << c;
  }
}

// A number that is not finite is found anywhere, but not in the gaps between rows.
TEST_P(Bf16Kernels, FiniteRows) {
  constexpr std::uint16_t kNan = 0x7FC0, kInfinity = 0xFF80, kLargest = 0x7F7F;
  for (std::int64_t cols : {1, 31, 32, 33, 70}) {
    const std::int64_t rows = 3, stride = cols + 2;
    Numbers numbers(static_cast<std::size_t>(rows * stride), kNan);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) numbers[at(r, stride, c)] = kLargest;
    const auto finite = [&] { return kernels().finite_rows(numbers.data(), stride, rows, cols); };
    ASSERT_TRUE(finite()) << cols;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c)
        for (std::uint16_t wrong : {kNan, kInfinity}) {
          numbers[at(r, stride, c)] = wrong;
          ASSERT_FALSE(finite()) << cols << ": " << r << ", " << c;
          numbers[at(r, stride, c)] = kLargest;
        }
  }
}

float number_of(std::uint16_t bits) {
  const std::uint32_t word = std::uint32_t{bits} << 16U;
  float number = 0;
  std::memcpy(&number, &word, sizeof(number));
  return number;
}

// Any number of rows and words: nothing past them is read or written. The numbers are small and whole, so sums are exact.
TEST_P(Bf16Kernels, ProductsOfAnySize) {
  const std::int64_t multiple = kernels().exact ? 1 : 16;
  const std::uint16_t whole[] = {0x0000, 0x3F80, 0xBF80, 0x4000, 0xC040};  // 0, 1, -1, 2, -3
  for (std::int64_t m = multiple; m <= 49; m += multiple)
    for (std::int64_t words : {1, 7, 16, 33})
      for (std::int64_t n : {16, 32, 48}) {
        if (words % multiple != 0) continue;
        const std::int64_t a_row = 2 * words + 2;
        Numbers a(static_cast<std::size_t>(m * a_row), 0x7FC0), b(static_cast<std::size_t>(words * 2 * n));
        for (std::int64_t r = 0; r < m; ++r)
          for (std::int64_t k = 0; k < 2 * words; ++k) a[at(r, a_row, k)] = whole[(3 * r + k * k) % 5];
        for (std::size_t i = 0; i < b.size(); ++i) b[i] = whole[(i + i / 7) % 5];
        Words pairs(static_cast<std::size_t>(words * n));
        std::memcpy(pairs.data(), b.data(), pairs.size() * 4);
        for (const bool accumulate : {false, true}) {
          const float scale = kernels().exact && !accumulate ? 0.5F : 1.0F;
          std::vector<float> c(static_cast<std::size_t>((m + 1) * n), 4.0F);
          kernels().begin();
          kernels().product({.m = m,
                             .n = n,
                             .k = words,
                             .a = a.data(),
                             .a_row = a_row * 2,
                             .b = pairs.data(),
                             .b_row = n,
                             .c = c.data(),
                             .c_row = n,
                             .accumulate = accumulate,
                             .scale = scale});
          kernels().end();
          for (std::int64_t r = 0; r < m; ++r)
            for (std::int64_t col = 0; col < n; ++col) {
              float sum = 0;
              for (std::int64_t k = 0; k < 2 * words; ++k)
                sum += number_of(a[at(r, a_row, k)]) * number_of(b[at(k / 2, 2 * n, 2 * col + k % 2)]);
              ASSERT_EQ(c[at(r, n, col)], sum * scale + (accumulate ? 4.0F : 0.0F))
                  << m << ", " << words << ", " << n << " at " << r << ", " << col;
            }
          for (std::int64_t col = 0; col < n; ++col) ASSERT_EQ(c[at(m, n, col)], 4.0F) << "past the end";
        }
      }
}

// A row of A may be a column of words.
TEST_P(Bf16Kernels, ProductsReadColumns) {
  if (!kernels().exact) GTEST_SKIP() << "its products read rows alone";
  const std::int64_t m = 32, n = 48, words = 32;
  const Numbers a = rows_of(m, 2 * words), b = rows_of(words, 2 * n);
  Words rows(static_cast<std::size_t>(m * words)), columns(rows.size()), pairs(static_cast<std::size_t>(words * n));
  std::memcpy(rows.data(), a.data(), rows.size() * 4);
  std::memcpy(pairs.data(), b.data(), pairs.size() * 4);
  kernels().transpose_words(rows.data(), words, m, words, columns.data(), m);
  std::vector<float> expected(static_cast<std::size_t>(m * n), 1.0F), got = expected;
  rapt::Bf16Product product{.m = m,
                            .n = n,
                            .k = words,
                            .a = rows.data(),
                            .a_row = words * 4,
                            .b = pairs.data(),
                            .b_row = n,
                            .c = expected.data(),
                            .c_row = n,
                            .accumulate = true};
  kernels().product(product);
  product.a = columns.data();
  product.a_row = 4;
  product.a_step = m * 4;
  product.c = got.data();
  kernels().product(product);
  EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0);
}

// Exact kernels as those of a processor that pads: the layouts that AMX reads, on any processor with products of pairs.
int unpadded_products = 0;

rapt::Bf16Kernels padding_kernels(const rapt::Bf16Kernels& exact) {
  static void (*multiply)(const rapt::Bf16Product&) = exact.product;
  rapt::Bf16Kernels kernels = exact;
  kernels.exact = false;
  kernels.product = [](const rapt::Bf16Product& p) {
    if (p.m % 16 != 0 || p.k % 16 != 0 || p.a_step != 4 || p.scale != 1) ++unpadded_products;
    multiply(p);
  };
  kernels.arrange_columns = [](const std::uint16_t* from, std::ptrdiff_t stride, std::int64_t rows, std::int64_t cols,
                               std::int64_t padded_cols, std::uint16_t* to) {
    for (std::int64_t c = 0; c < padded_cols; ++c)
      for (std::int64_t r = 0; r < kTileKeys; ++r)
        to[c * kTileKeys + r] = r < rows && c < cols ? from[r * stride + c] : std::uint16_t{0};
  };
  return kernels;
}

TEST(Bf16Layouts, PaddedSizesHaveTheBitsOfExactOnes) {
  if (!support::on_cpu() || rapt::available_bf16().count == 0 || rapt::active_isa() != rapt::Isa::avx512)
    GTEST_SKIP() << "no products of pairs";
  const rapt::Bf16Kernels& exact = *rapt::available_bf16().list[0];
  const rapt::Bf16Kernels padding = padding_kernels(exact);
  const rapt::Bf16Kernels* const usual = rapt::active_bf16(rapt::active_isa());
  unpadded_products = 0;
  struct Shape {
    std::int64_t queries, keys, dim, value_dim;
  };
  for (const Shape& shape : {Shape{70, 131, 40, 24},
                             {149, 149, 80, 80},
                             {3, 200, 24, 17},
                             {33, 65, 37, 64},
                             {300, 90, 64, 96},
                             {21, 200, 56, 64},
                             {24, 331, 48, 24}})
    for (const support::MaskKind mask : {support::MaskKind::none, support::MaskKind::top_left}) {
      support::CaseSpec s;
      s.dtype = rapt::Dtype::bf16;
      s.queries = shape.queries;
      s.keys = shape.keys;
      s.key_dim = shape.dim;
      s.value_dims = {shape.value_dim};
      s.mask = mask;
      support::Call call(make_case(s));
      rapt::set_active_bf16(&exact);
      const auto out = call.forward({.saved = true});
      const auto gradients = call.backward();
      rapt::set_active_bf16(&padding);
      const auto padded_out = call.forward({.saved = true});
      const auto padded_gradients = call.backward();
      rapt::set_active_bf16(usual);
      EXPECT_EQ(out.bits, padded_out.bits) << describe(s);
      EXPECT_EQ(gradients.bits, padded_gradients.bits) << describe(s);
      EXPECT_EQ(out.damage + gradients.damage + padded_out.damage + padded_gradients.damage, "") << describe(s);
    }
  EXPECT_EQ(unpadded_products, 0);
}

INSTANTIATE_TEST_SUITE_P(All, Bf16Kernels, testing::Values(0, 1));

}  // namespace
