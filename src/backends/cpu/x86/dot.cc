#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own header: a vector that is left undefined on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif

#include "backends/cpu/x86/bf16.h"

// AVX512-BF16: sixteen sums of two products in one instruction.
namespace rapt::inline v1::bf16_dot {
namespace {

template <int kRows, int kVectors, bool kReadsColumns>
inline void block(const Bf16Product& p, std::int64_t m, std::int64_t n) {
  const char* a = static_cast<const char*>(p.a) + m * p.a_row;
  const std::uint32_t* b = p.b + n;
  float* c = p.c + m * p.c_row + n;
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  for (std::int64_t k = 0; k < p.k; ++k, b += p.b_row, a += kReadsColumns ? p.a_step : 4) {
    __m512i x[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) x[v] = _mm512_loadu_si512(b + 16 * v);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      std::uint32_t pair;
      __builtin_memcpy(&pair, a + r * p.a_row, 4);
      const __m512i y = _mm512_set1_epi32(static_cast<int>(pair));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = _mm512_dpbf16_ps(sum[r][v], reinterpret_cast<__m512bh>(y), reinterpret_cast<__m512bh>(x[v]));
    }
  }
  const __m512 scale = _mm512_set1_ps(p.scale);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + r * p.c_row + 16 * v;
      sum[r][v] = p.accumulate ? _mm512_add_ps(sum[r][v], _mm512_loadu_ps(to)) : _mm512_mul_ps(sum[r][v], scale);
      _mm512_storeu_ps(to, sum[r][v]);
    }
}

// The block of `rows` rows, at most kRows.
template <int kRows, int kVectors, bool kReadsColumns>
inline void block_of(const Bf16Product& p, std::int64_t rows, std::int64_t m, std::int64_t n) {
  if constexpr (kRows > 1)
    if (rows < kRows) return block_of<kRows - 1, kVectors, kReadsColumns>(p, rows, m, n);
  block<kRows, kVectors, kReadsColumns>(p, m, n);
}

// Blocks of nearly as many rows each: a dozen sums are under way at a time, and one of few rows would wait for its own.
template <int kVectors, bool kReadsColumns>
inline void columns(const Bf16Product& p, std::int64_t n) {
  constexpr int kRows = kVectors == 1 ? 16 : 8;
  const std::int64_t blocks = (p.m + kRows - 1) / kRows;
  if (blocks == 0) return;
  const std::int64_t fewest = p.m / blocks;
  std::int64_t more = p.m - fewest * blocks;  // blocks with one row more
  for (std::int64_t m = 0; m < p.m; --more) {
    const std::int64_t rows = fewest + (more > 0 ? 1 : 0);
    block_of<kRows, kVectors, kReadsColumns>(p, rows, m, n);
    m += rows;
  }
}

template <bool kReadsColumns>
void all_columns(const Bf16Product& p) {
  std::int64_t n = 0;
  for (; n + 32 <= p.n; n += 32) columns<2, kReadsColumns>(p, n);
  if (n < p.n) columns<1, kReadsColumns>(p, n);
}

void product(const Bf16Product& p) {
  if (p.a_step == 4) all_columns<false>(p);
  else all_columns<true>(p);
}

void nothing() {}

// As many of the 16 numbers from column c on as a row has.
__mmask16 within(std::int64_t c, std::int64_t cols) {
  if (c + 16 <= cols) return 0xFFFF;
  return c < cols ? static_cast<__mmask16>((1U << (cols - c)) - 1) : __mmask16{0};
}

// The same of 32 numbers.
__mmask32 within_pairs(std::int64_t c, std::int64_t cols) {
  if (c + 32 <= cols) return ~__mmask32{0};
  return c < cols ? (__mmask32{1} << (cols - c)) - 1 : __mmask32{0};
}

// 16 words of each of 16 rows, of which load(r) gives one, transposed.
template <class Load>
inline void transpose_block(const Load& load, std::uint32_t* to, std::ptrdiff_t to_stride) {
  __m512i x[16];
  __m512i y[16];
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) x[r] = load(r);
#pragma GCC unroll 8
  for (int r = 0; r < 16; r += 2) {
    y[r] = _mm512_unpacklo_epi32(x[r], x[r + 1]);
    y[r + 1] = _mm512_unpackhi_epi32(x[r], x[r + 1]);
  }
  // Now x[4·g + c] has column c of each quarter, of the rows 4·g to 4·g + 3.
#pragma GCC unroll 4
  for (int r = 0; r < 16; r += 4) {
    x[r] = _mm512_unpacklo_epi64(y[r], y[r + 2]);
    x[r + 1] = _mm512_unpackhi_epi64(y[r], y[r + 2]);
    x[r + 2] = _mm512_unpacklo_epi64(y[r + 1], y[r + 3]);
    x[r + 3] = _mm512_unpackhi_epi64(y[r + 1], y[r + 3]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i low02 = _mm512_shuffle_i32x4(x[c], x[c + 4], 0x88);
    const __m512i low13 = _mm512_shuffle_i32x4(x[c], x[c + 4], 0xdd);
    const __m512i high02 = _mm512_shuffle_i32x4(x[c + 8], x[c + 12], 0x88);
    const __m512i high13 = _mm512_shuffle_i32x4(x[c + 8], x[c + 12], 0xdd);
    _mm512_storeu_si512(to + c * to_stride, _mm512_shuffle_i32x4(low02, high02, 0x88));
    _mm512_storeu_si512(to + (c + 4) * to_stride, _mm512_shuffle_i32x4(low13, high13, 0x88));
    _mm512_storeu_si512(to + (c + 8) * to_stride, _mm512_shuffle_i32x4(low02, high02, 0xdd));
    _mm512_storeu_si512(to + (c + 12) * to_stride, _mm512_shuffle_i32x4(low13, high13, 0xdd));
  }
}

}  // namespace

void interleave_rows(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                     std::int64_t padded_rows, std::uint32_t* to, std::ptrdiff_t to_stride) {
  for (std::int64_t r = 0; r < padded_rows; r += 2, to += to_stride)
    for (std::int64_t c = 0; c < to_stride; c += 16) {
      const __mmask16 low = r < rows ? within(c, cols) : __mmask16{0};
      const __mmask16 high = r + 1 < rows ? low : __mmask16{0};
      const std::uint16_t* first = from + r * from_stride + c;
      const __m512i x = _mm512_maskz_cvtepu16_epi32(low, _mm256_maskz_loadu_epi16(low, first));
      const __m512i y = _mm512_maskz_cvtepu16_epi32(high, _mm256_maskz_loadu_epi16(high, first + from_stride));
      _mm512_storeu_si512(to + c, _mm512_or_si512(x, _mm512_maskz_slli_epi32(high, y, 16)));
    }
}

void transpose_words(const std::uint32_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                     std::uint32_t* to, std::ptrdiff_t to_stride) {
  for (std::int64_t r = 0; r < rows; r += 16)
    for (std::int64_t c = 0; c < cols; c += 16) {
      const std::uint32_t* const first = from + r * from_stride + c;
      transpose_block([&](int n) { return _mm512_loadu_si512(first + n * from_stride); }, to + c * to_stride + r,
                      to_stride);
    }
}

void transpose_pairs(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                     std::int64_t padded_rows, std::int64_t padded_cols, std::uint32_t* to, std::ptrdiff_t to_stride) {
  for (std::int64_t r = 0; r < padded_rows; r += 16)
    for (std::int64_t c = 0; c < padded_cols; c += 32) {
      const std::uint16_t* const first = from + r * from_stride + c;
      const __mmask32 some = within_pairs(c, cols);
      const auto masked = [&](int n) {
        return r + n < rows ? _mm512_maskz_loadu_epi16(some, first + n * from_stride) : _mm512_setzero_si512();
      };
      const auto whole = [&](int n) { return _mm512_loadu_si512(first + n * from_stride); };
      std::uint32_t* const target = to + c / 2 * to_stride + r;
      if (r + 16 <= rows && c + 32 <= cols) transpose_block(whole, target, to_stride);
      else transpose_block(masked, target, to_stride);
    }
}

// Columns become rows: [padded_cols][kTileKeys], from up to kTileKeys rows.
void transpose_rows(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                    std::int64_t padded_cols, std::uint16_t* to) {
  constexpr std::int64_t kStrip = 16;
  std::uint32_t pairs[kTileKeys / 2 * kStrip];
  for (std::int64_t c = 0; c < padded_cols; c += kStrip) {
    interleave_rows(from + c, from_stride, rows, cols - c, kTileKeys, pairs, kStrip);
    transpose_words(pairs, kStrip, kTileKeys / 2, kStrip, reinterpret_cast<std::uint32_t*>(to + c * kTileKeys),
                    kTileKeys / 2);
  }
}

// Its products read columns of words.
void pair_rows(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
               std::int64_t padded_cols, std::uint16_t* to) {
  interleave_rows(from, from_stride, rows, cols, rows + rows % 2, reinterpret_cast<std::uint32_t*>(to), padded_cols);
}

void copy_rows(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
               std::uint16_t* to, std::ptrdiff_t to_stride) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < to_stride; c += 32)
      _mm512_mask_storeu_epi16(to + r * to_stride + c, within_pairs(c, to_stride),
                               _mm512_maskz_loadu_epi16(within_pairs(c, cols), from + r * from_stride + c));
}

bool finite_rows(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols) {
  const __m512i exponent = _mm512_set1_epi16(0x7F80);
  __mmask32 wrong = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; c += 32) {
      const __m512i x = _mm512_maskz_loadu_epi16(within_pairs(c, cols), from + r * from_stride + c);
      wrong |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
    }
  return wrong == 0;
}

void round_rows(const float* from, std::int64_t rows, std::int64_t cols, std::ptrdiff_t from_stride, std::uint16_t* to,
                std::ptrdiff_t to_stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t c = 0;
    for (; c < cols; c += 16)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + r * to_stride + c),
                          reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(from + r * from_stride + c))));
    for (; c < to_stride; ++c) to[r * to_stride + c] = 0;
  }
}

void store_rows(const float* from, std::int64_t rows, std::int64_t cols, std::ptrdiff_t from_stride, std::uint16_t* to,
                std::ptrdiff_t to_stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const row = from + r * from_stride;
    std::uint16_t* const target = to + r * to_stride;
    std::int64_t c = 0;
    for (; c + 32 <= cols; c += 32) {
      const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(row + c + 16), _mm512_loadu_ps(row + c));
      _mm512_storeu_si512(target + c, reinterpret_cast<__m512i>(both));
    }
    for (; c < cols; c += 16) {
      const __mmask16 some = within(c, cols);
      const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, row + c));
      _mm256_mask_storeu_epi16(target + c, some, reinterpret_cast<__m256i>(rounded));
    }
  }
}

void round_to_bf16(const float* from, std::int64_t rows, std::int64_t cols, std::ptrdiff_t from_stride,
                   std::int64_t padded_rows, std::uint32_t* to) {
  const __m512i side_by_side = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                                                6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  for (std::int64_t r = 0; r < padded_rows; r += 2, to += cols)
    for (std::int64_t c = 0; c < cols; c += 16) {
      const float* first = from + r * from_stride + c;
      const __m512 low = r < rows ? _mm512_loadu_ps(first) : _mm512_setzero_ps();
      const __m512 high = r + 1 < rows ? _mm512_loadu_ps(first + from_stride) : _mm512_setzero_ps();
      const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
      _mm512_storeu_si512(to + c, _mm512_permutexvar_epi16(side_by_side, both));
    }
}

extern const Bf16Kernels kernels;
const Bf16Kernels kernels{"avx512_bf16",
                          true,
                          0,
                          &nothing,
                          &nothing,
                          &product,
                          &round_rows,
                          &store_rows,
                          &round_to_bf16,
                          &interleave_rows,
                          &pair_rows,
                          &copy_rows,
                          &transpose_pairs,
                          &transpose_words,
                          &finite_rows};

}  // namespace rapt::inline v1::bf16_dot
