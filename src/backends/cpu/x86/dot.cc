#include <immintrin.h>

#include "backends/cpu/x86/bf16.h"

// AVX512-BF16: sixteen sums of two products in one instruction.
namespace rapt::inline v1::bf16_dot {
namespace {

template <int kRows, int kVectors>
inline void block(const Bf16Product& p, std::int64_t m, std::int64_t n) {
  const char* a = static_cast<const char*>(p.a) + m * p.a_row;
  const std::uint32_t* b = p.b + n;
  float* c = p.c + m * p.c_row + n;
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  for (std::int64_t k = 0; k < p.k; ++k, b += p.b_row, a += 4) {
    __m512i x[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) x[v] = _mm512_loadu_si512(b + 16 * v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      std::uint32_t pair;
      __builtin_memcpy(&pair, a + r * p.a_row, 4);
      const __m512i y = _mm512_set1_epi32(static_cast<int>(pair));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = _mm512_dpbf16_ps(sum[r][v], reinterpret_cast<__m512bh>(y), reinterpret_cast<__m512bh>(x[v]));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + r * p.c_row + 16 * v;
      if (p.accumulate) sum[r][v] = _mm512_add_ps(sum[r][v], _mm512_loadu_ps(to));
      _mm512_storeu_ps(to, sum[r][v]);
    }
}

template <int kVectors>
inline void columns(const Bf16Product& p, std::int64_t n) {
  for (std::int64_t m = 0; m < p.m; m += 8) block<8, kVectors>(p, m, n);
}

void product(const Bf16Product& p) {
  std::int64_t n = 0;
  for (; n + 32 <= p.n; n += 32) columns<2>(p, n);
  if (n < p.n) columns<1>(p, n);
}

void nothing() {}

}  // namespace

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

void round_to_bf16(const float* from, std::int64_t rows, std::int64_t cols, std::ptrdiff_t from_stride,
                   std::uint32_t* to) {
  const __m512i side_by_side = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                                                6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  for (std::int64_t r = 0; r < kTileKeys; r += 2, to += cols)
    for (std::int64_t c = 0; c < cols; c += 16) {
      const float* first = from + r * from_stride + c;
      const __m512 low = r < rows ? _mm512_loadu_ps(first) : _mm512_setzero_ps();
      const __m512 high = r + 1 < rows ? _mm512_loadu_ps(first + from_stride) : _mm512_setzero_ps();
      const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
      _mm512_storeu_si512(to + c, _mm512_permutexvar_epi16(side_by_side, both));
    }
}

extern const Bf16Kernels kernels;
const Bf16Kernels kernels{"avx512_bf16", &nothing, &nothing, &product, &round_rows, &round_to_bf16};

}  // namespace rapt::inline v1::bf16_dot
