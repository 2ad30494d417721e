#pragma once

#include "backends/cuda/general/block.cuh"
#include "backends/cuda/hopper/sm90.h"
#include "backends/cuda/hopper/wgmma.h"

// Products of tiles in shared memory, and the registers that hold their results.
//
// Fragments: a thread has the rows lane/4 and lane/4 + 8 of its warp's 16, and of each 8 columns 2·(lane%4) + {0, 1}.
// Element 4n + 2r + c is row r, column 8n + c of the thread.
namespace rapt::inline v1::cuda::hopper {

// Which stage of a ring is next, and which phase of its barriers.
template <int kStages>
struct StageRing {
  int stage = 0;
  std::uint32_t phase = 0;

  RAPT_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// Starts to = left·rightᵀ: 64 rows against N, along the first `kDepth` columns.
template <class T, int kDepth, int kPanels, int N, int H>
RAPT_DEVICE void start_product(float (&to)[H], const std::uint16_t (&left)[kPanels][64][64],
                               const std::uint16_t (&right)[kPanels][N][64]) {
  static_assert(H == N / 2);
  const std::uint64_t a = along_rows(left), b = along_rows(right);
  wgmma_fence();
#pragma unroll
  for (int d = 0; d < kDepth; d += 16)
    wgmma<SumOver::rows>(to, advance(a, d / 64 * sizeof(left[0]) + d % 64 * 2),
                         advance(b, d / 64 * sizeof(right[0]) + d % 64 * 2), T{}, d > 0);
  wgmma_commit();
}

// In place of a product that is not needed: what is waited for is counted all the same.
RAPT_DEVICE void start_nothing() { wgmma_commit(); }

// Starts to += x·rows over N rows; the fragments of x are those of a left operand.
template <class T, int H, int kPanels, int N, int K>
RAPT_DEVICE void start_sum(float (&to)[H], const std::uint32_t (&x)[K][4],
                           const std::uint16_t (&rows)[kPanels][N][64]) {
  static_assert(K == N / 16 && H <= 32 * kPanels);
  const std::uint64_t b = down_rows(rows, sizeof(rows[0]));
  wgmma_fence();
#pragma unroll
  for (int n = 0; n < N; n += 16) wgmma<SumOver::columns>(to, x[n / 16], advance(b, n * 128), T{}, true);
  wgmma_commit();
}

// Columns 8n … 8n + 7 of an accumulator → a left operand; the layouts agree.
template <class T, int K>
RAPT_DEVICE void pack_columns(std::uint32_t (&to)[K][4], const float (&x)[8 * K], int n) {
#pragma unroll
  for (int r = 0; r < 2; ++r) to[n / 2][n % 2 * 2 + r] = pack(x[4 * n + 2 * r], x[4 * n + 2 * r + 1], T{});
}

// −∞ in row r of an accumulator in all columns outside [begin, end), counted from the thread's first. A bit for each column
// that the thread has: the compiler turns those into predicates, seven with an instruction.
template <int H>
RAPT_DEVICE void hide_outside(float (&x)[H], int r, int begin, int end) {
  constexpr int kBits = 32, kColumns = H / 2;
#pragma unroll
  for (int first = 0; first < kColumns; first += kBits) {
    const auto before = [&](int column) {
      column -= 4 * first;
      const int count = 2 * (column >> 3) + ::min(column & 7, 2);
      return count <= 0 ? 0u : (count >= kBits ? ~0u : (1u << count) - 1);
    };
    const unsigned seen = before(end) & ~before(begin);
#pragma unroll
    for (int n = first; n < kColumns && n < first + kBits; ++n) {
      float& e = x[n / 2 * 4 + 2 * r + n % 2];
      e = (seen >> (n - first) & 1) != 0 ? e : -INFINITY;
    }
  }
}

// Makes the compiler write the registers here and not further down, where products are in flight (ptxas C7515).
template <int N>
RAPT_DEVICE void keep(float (&x)[N]) {
#pragma unroll
  for (int n = 0; n < N; ++n) asm volatile("" : "+f"(x[n])::"memory");
}

// The same number, but what is computed from it is computed anew, and not kept in registers from one tile to the next.
RAPT_DEVICE int anew(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

// The four lanes of a row transpose their 4 × 4 words, so that each has 16 consecutive bytes.
RAPT_DEVICE void transpose_words(std::uint32_t (&x)[4], int quad) {
#pragma unroll
  for (int bit = 1; bit < 4; bit *= 2)
#pragma unroll
    for (int m = 0; m < 4; ++m)
      if ((m & bit) == 0) {
        const bool high = quad & bit;
        const std::uint32_t got = __shfl_xor_sync(~0u, high ? x[m] : x[m + bit], bit);
        x[m] = high ? got : x[m];
        x[m + bit] = high ? x[m + bit] : got;
      }
}

// Row r of an accumulator, times `factor`, → memory where `inside`, and what rounding took from it → `rest` where the whole
// warp `keeps` it. False: some number is infinite or NaN.
template <class T, int H>
RAPT_DEVICE bool store_row(std::uint16_t* to, bool keeps, std::uint16_t* rest, int dim, bool inside, int lane, int r,
                           float factor, const float (&x)[H]) {
  static_assert(H % 16 == 0);
  const int quad = lane % 4;
  float zero[4] = {};  // NaN once they have met a number that is not finite; four, since each waits for the last
#pragma unroll
  for (int n = 0; n < H / 4; n += 4) {
    const bool stores = inside && 8 * (n + quad) < dim;
    std::uint32_t w[4];
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const float a = x[4 * (n + m) + 2 * r] * factor, b = x[4 * (n + m) + 2 * r + 1] * factor;
      zero[m] = fmaf(b, 0.f, fmaf(a, 0.f, zero[m]));
      w[m] = pack(a, b, T{});
    }
    if (keeps) {
      std::uint32_t lost[4];
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const float2 kept = unpack(w[m], T{});
        lost[m] = pack(x[4 * (n + m) + 2 * r] * factor - kept.x, x[4 * (n + m) + 2 * r + 1] * factor - kept.y, T{});
      }
      transpose_words(lost, quad);
      if (stores) *reinterpret_cast<uint4*>(rest + 8 * (n + quad)) = make_uint4(lost[0], lost[1], lost[2], lost[3]);
    }
    transpose_words(w, quad);
    if (stores) *reinterpret_cast<uint4*>(to + 8 * (n + quad)) = make_uint4(w[0], w[1], w[2], w[3]);
  }
  return (zero[0] + zero[1]) + (zero[2] + zero[3]) == 0 || !inside;
}

// The same in f32.
template <int H>
RAPT_DEVICE bool store_floats(float* to, int dim, bool inside, int lane, int r, float factor, const float (&x)[H]) {
  float zero = 0;
#pragma unroll
  for (int n = 0; n < H / 4; ++n) {
    const float2 y = make_float2(x[4 * n + 2 * r] * factor, x[4 * n + 2 * r + 1] * factor);
    zero = fmaf(y.y, 0.f, fmaf(y.x, 0.f, zero));
    if (inside && 8 * n < dim) *reinterpret_cast<float2*>(to + 8 * n + lane % 4 * 2) = y;
  }
  return zero == 0 || !inside;
}

// One tile of owned rows of one head. A few heads at a time, so that what they loop over stays in the L2 cache; of these,
// where the last tiles have most to do, those first.
struct OwnedTile {
  int tile, head, batch;
};
RAPT_DEVICE OwnedTile owned_tile(int item, int tiles, int heads, int batches, int together, bool last_first) {
  const int rows = heads * batches, first = item / (together * tiles) * together;
  const int count = ::min(together, rows - first), place = item - first * tiles;
  const int row = first + place % count, tile = place / count;
  return {last_first ? tiles - 1 - tile : tile, row % heads, row / heads};
}

}  // namespace rapt::inline v1::cuda::hopper
