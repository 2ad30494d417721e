#include <immintrin.h>

#include "backends/cpu/x86/bf16.h"

// AMX: products of 16×32 by 32×16 bf16 tiles in one instruction. Four sums are held at a time, 32×32 numbers.
namespace rapt::inline v1 {
namespace bf16_dot {
void round_rows(const float* from, std::int64_t rows, std::int64_t cols, std::ptrdiff_t from_stride, std::uint16_t* to,
                std::ptrdiff_t to_stride);
void store_rows(const float* from, std::int64_t rows, std::int64_t cols, std::ptrdiff_t from_stride, std::uint16_t* to,
                std::ptrdiff_t to_stride);
void round_to_bf16(const float* from, std::int64_t rows, std::int64_t cols, std::ptrdiff_t from_stride,
                   std::int64_t padded_rows, std::uint32_t* to);
void interleave_rows(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                     std::int64_t padded_rows, std::uint32_t* to, std::ptrdiff_t to_stride);
void transpose_rows(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                    std::int64_t padded_cols, std::uint16_t* to);
void copy_rows(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
               std::uint16_t* to, std::ptrdiff_t to_stride);
void transpose_pairs(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                     std::int64_t padded_rows, std::int64_t padded_cols, std::uint32_t* to, std::ptrdiff_t to_stride);
void transpose_words(const std::uint32_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                     std::uint32_t* to, std::ptrdiff_t to_stride);
bool finite_rows(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols);
}  // namespace bf16_dot

namespace bf16_tiles {
namespace {

struct alignas(64) Configuration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Static: the compiler does not see that the instruction reads all of it.
constexpr Configuration kConfiguration;

void begin() { _tile_loadconfig(&kConfiguration); }

void end() { _tile_release(); }

// Sums in tiles 0 to 3, A in 4 and 5, B in 6 and 7. The numbers of tiles must be constants to the compiler.
template <bool kTwoRows, bool kTwoColumns>
inline void block(const Bf16Product& p, std::int64_t m, std::int64_t n) {
  const char* a = static_cast<const char*>(p.a) + m * p.a_row;
  const std::uint32_t* b = p.b + n;
  float* c = p.c + m * p.c_row + n;
  float* below = c + 16 * p.c_row;
  const std::ptrdiff_t c_bytes = p.c_row * 4;
  const std::ptrdiff_t b_bytes = p.b_row * 4;
  if (p.accumulate) {
    _tile_loadd(0, c, c_bytes);
    if constexpr (kTwoColumns) _tile_loadd(1, c + 16, c_bytes);
    if constexpr (kTwoRows) _tile_loadd(2, below, c_bytes);
    if constexpr (kTwoRows && kTwoColumns) _tile_loadd(3, below + 16, c_bytes);
  } else {
    _tile_zero(0);
    if constexpr (kTwoColumns) _tile_zero(1);
    if constexpr (kTwoRows) _tile_zero(2);
    if constexpr (kTwoRows && kTwoColumns) _tile_zero(3);
  }
  for (std::int64_t k = 0; k < p.k; k += 16, a += 64, b += 16 * p.b_row) {
    _tile_loadd(4, a, p.a_row);
    _tile_loadd(6, b, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kTwoColumns) {
      _tile_loadd(7, b + 16, b_bytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kTwoRows) {
      _tile_loadd(5, a + 16 * p.a_row, p.a_row);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kTwoRows && kTwoColumns) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_bytes);
  if constexpr (kTwoColumns) _tile_stored(1, c + 16, c_bytes);
  if constexpr (kTwoRows) _tile_stored(2, below, c_bytes);
  if constexpr (kTwoRows && kTwoColumns) _tile_stored(3, below + 16, c_bytes);
}

void product(const Bf16Product& p) {
  for (std::int64_t m = 0; m < p.m; m += 32) {
    const bool two_rows = m + 16 < p.m;
    std::int64_t n = 0;
    for (; n + 32 <= p.n; n += 32)
      if (two_rows) block<true, true>(p, m, n);
      else block<false, true>(p, m, n);
    if (n == p.n) continue;
    if (two_rows) block<true, false>(p, m, n);
    else block<false, false>(p, m, n);
  }
}

}  // namespace

extern const Bf16Kernels kernels;
const Bf16Kernels kernels{"amx",
                          false,
                          256,
                          &begin,
                          &end,
                          &product,
                          &bf16_dot::round_rows,
                          &bf16_dot::store_rows,
                          &bf16_dot::round_to_bf16,
                          &bf16_dot::interleave_rows,
                          &bf16_dot::transpose_rows,
                          &bf16_dot::copy_rows,
                          &bf16_dot::transpose_pairs,
                          &bf16_dot::transpose_words,
                          &bf16_dot::finite_rows};

}  // namespace bf16_tiles
}  // namespace rapt::inline v1
