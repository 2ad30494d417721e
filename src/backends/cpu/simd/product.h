#pragma once

#include "backends/cpu/simd/kernels.h"
#include "backends/cpu/simd/lane.h"

// The one matrix product that all of attention is made of: numbers of A times vectors of B.
namespace rapt::inline v1::RAPT_TARGET {

template <class T>
inline constexpr int kLanes = Lanes<Lane<T>>::count;

RAPT_FN constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
template <class T>
RAPT_FN constexpr std::int64_t padded(std::int64_t n) {
  return round_up(n, kLanes<T>);
}

// Rows of C held in registers, by how many vectors each has.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr int kProductRows = 8, kProductRowsOfThree = 8, kProductRowsOfOne = 8;
#else
inline constexpr int kProductRows = 6, kProductRowsOfThree = 4, kProductRowsOfOne = 8;
#endif

template <class T, int kRows, int kVectors>
RAPT_FN void product_block(const ProductArgs<T>& args, std::int64_t m, std::int64_t n) {
  const Tag<T> tag;
  const T* HWY_RESTRICT a = args.a + m * args.a_row;
  const T* HWY_RESTRICT b = args.b + n;
  T* HWY_RESTRICT c = args.c + m * args.c_row + n;
  Vec<T> sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(tag);
  const std::ptrdiff_t a_row = args.a_row;
  const std::ptrdiff_t a_col = args.a_col;
  const std::ptrdiff_t b_row = args.b_row;
  for (std::int64_t k = 0; k < args.k; ++k) {
    Vec<T> x[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) x[v] = hn::LoadU(tag, b + v * kLanes<T>);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec<T> y = hn::Set(tag, a[r * a_row]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(y, x[v], sum[r][v]);
    }
    a += a_col;
    b += b_row;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      T* target = c + r * args.c_row + v * kLanes<T>;
      if (args.accumulate) sum[r][v] = hn::Add(sum[r][v], hn::LoadU(tag, target));
      hn::StoreU(sum[r][v], tag, target);
    }
}

// The block of `rows` rows, at most kRows.
template <class T, int kRows, int kVectors>
RAPT_FN void product_rows(const ProductArgs<T>& args, std::int64_t rows, std::int64_t m, std::int64_t n) {
  if constexpr (kRows > 1)
    if (rows < kRows) return product_rows<T, kRows - 1, kVectors>(args, rows, m, n);
  product_block<T, kRows, kVectors>(args, m, n);
}

// Blocks of nearly as many rows each: one of a row or two would wait for its own sums.
template <class T, int kVectors>
void product_columns(const ProductArgs<T>& args, std::int64_t n) {
  constexpr int kRows = kVectors == 1 ? kProductRowsOfOne : kVectors == 2 ? kProductRows : kProductRowsOfThree;
  const std::int64_t blocks = (args.m + kRows - 1) / kRows;
  const std::int64_t fewest = blocks <= 1 ? args.m : args.m / blocks;
  std::int64_t more = args.m - fewest * blocks;  // blocks with one row more
  for (std::int64_t m = 0; m < args.m; --more) {
    const std::int64_t rows = fewest + (more > 0 ? 1 : 0);
    product_rows<T, kRows, kVectors>(args, rows, m, n);
    m += rows;
  }
}

template <class T>
void product(const ProductArgs<T>& args) {
  constexpr std::int64_t kWide = 2 * kLanes<T>;
  std::int64_t n = 0;
  if (args.n % kWide != 0 && args.n > kWide) {
    product_columns<T, 3>(args, n);
    n += 3 * kLanes<T>;
  }
  for (; n + kWide <= args.n; n += kWide) product_columns<T, 2>(args, n);
  if (n < args.n) product_columns<T, 1>(args, n);
}

// The same, where a number 0 of A contributes nothing even to a NaN or an infinity of B.
template <class T>
void careful_product(const ProductArgs<T>& args) {
  for (std::int64_t m = 0; m < args.m; ++m) {
    T* c = args.c + m * args.c_row;
    if (!args.accumulate)
      for (std::int64_t n = 0; n < args.n; ++n) c[n] = 0;
    for (std::int64_t k = 0; k < args.k; ++k) {
      const T a = args.a[m * args.a_row + k * args.a_col];
      if (a == T(0)) continue;
      const T* b = args.b + k * args.b_row;
      for (std::int64_t n = 0; n < args.n; ++n) c[n] += a * b[n];
    }
  }
}

}  // namespace rapt::inline v1::RAPT_TARGET
