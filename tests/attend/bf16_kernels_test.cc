// Packing of bf16 rows for pair products, and the products, against plain loops.

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "backends/cpu/x86/bf16.h"

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

TEST_P(Bf16Kernels, ColumnsBecomeRows) {
  for (std::int64_t rows : {1, 31, 64})
    for (std::int64_t cols : {1, 16, 24, 40}) {
      const std::int64_t stride = cols + 3, padded = (cols + 15) / 16 * 16;
      const Numbers from = rows_of(rows, stride);
      Numbers to(static_cast<std::size_t>(padded * kTileKeys + 1), 0xABCD);
      kernels().transpose_rows(from.data(), stride, rows, cols, padded, to.data());
      for (std::int64_t c = 0; c < padded; ++c)
        for (std::int64_t r = 0; r < kTileKeys; ++r)
          ASSERT_EQ(to[at(c, kTileKeys, r)], r < rows && c < cols ? from[at(r, stride, c)] : 0)
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

// A row of A may be a column of words.
TEST_P(Bf16Kernels, ProductsReadColumns) {
  if (!kernels().reads_columns) GTEST_SKIP() << "its products read rows alone";
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

INSTANTIATE_TEST_SUITE_P(All, Bf16Kernels, testing::Values(0, 1));

}  // namespace
