#pragma once

#include "backends/cuda/general/block.cuh"
#include "backends/cuda/hopper/mma.h"

// Products of 64 × 64 numbers of 16 bits by the eight warps of a block.
namespace rapt::inline v1::cuda::pairs {

// Blocks that share a multiprocessor's registers: sums of values in f32 leave none for a second.
template <class T>
inline constexpr int kBlocks = std::is_same_v<T, float> ? 1 : 2;

// The pitch keeps eight rows apart in the banks.
struct alignas(16) HalfTile {
  std::uint16_t x[kTile][kTile + 8];
};

// A thread's part of a product: of the rows 16·(warp%4) … and the columns 32·(warp/4) …, element [n][2r + c] is the row
// lane/4 + 8r and the column 8n + 2·(lane%4) + c.
using Fragment = float[4][4];
RAPT_DEVICE int fragment_row(int r) {
  return static_cast<int>(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4) + 8 * r;
}
RAPT_DEVICE int fragment_column(int n) {
  return static_cast<int>(threadIdx.x / 128 * 32 + threadIdx.x % 4 * 2) + 8 * n;
}

// Which index of an operand the sum runs along.
enum class SumAlong { rows, columns };

// to += left·right; the operand of a product has its sum along the columns of the left one and the rows of the right one,
// unless it is stored the other way round.
template <class T, SumAlong kLeft, SumAlong kRight>
RAPT_DEVICE void add_product(Fragment& to, const HalfTile& left, const HalfTile& right) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned row = warp % 4 * 16, column = warp / 4 * 32, half = lane / 16 * 8, quarter = lane / 8 % 2 * 8;
#pragma unroll
  for (unsigned k = 0; k < kTile; k += 16) {
    std::uint32_t a[4];
    if constexpr (kLeft == SumAlong::columns) load_matrices(a, shared_address(&left.x[row + lane % 16][k + half]));
    else load_transposed(a, shared_address(&left.x[k + half + lane % 8][row + quarter]));
#pragma unroll
    for (unsigned n = 0; n < 4; n += 2) {
      std::uint32_t b[4];
      const unsigned at = column + 8 * n;
      if constexpr (kRight == SumAlong::rows) load_transposed(b, shared_address(&right.x[k + lane % 16][at + half]));
      else load_matrices(b, shared_address(&right.x[at + half + lane % 8][k + quarter]));
      multiply_add(to[n], a, b[0], b[1], T{});
      multiply_add(to[n + 1], a, b[2], b[3], T{});
    }
  }
}

RAPT_DEVICE float number(std::uint16_t bits, Bf16 t) { return unpack(bits, t).x; }
RAPT_DEVICE float number(std::uint16_t bits, F16 t) { return unpack(bits, t).x; }

// to += left·right of a left operand in f32, [rows][64] or the other way round. A 0 on the left takes nothing, not even a NaN.
template <class T, SumAlong kLeft>
RAPT_DEVICE void add_carefully(Fragment& to, const float (&left)[kTile][kPitch], const HalfTile& right) {
#pragma unroll 1
  for (int k = 0; k < kTile; ++k)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = fragment_row(r);
      const float x = kLeft == SumAlong::columns ? left[row][k] : left[k][row];
      if (x == 0) continue;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float2 y = unpack(*reinterpret_cast<const std::uint32_t*>(&right.x[k][fragment_column(n)]), T{});
        to[n][2 * r] = fmaf(x, y.x, to[n][2 * r]);
        to[n][2 * r + 1] = fmaf(x, y.y, to[n][2 * r + 1]);
      }
    }
}

RAPT_DEVICE bool has_special(std::uint32_t x, Bf16) {
  return (x & 0x7f80u) == 0x7f80u || (x & 0x7f800000u) == 0x7f800000u;
}
RAPT_DEVICE bool has_special(std::uint32_t x, F16) {
  return (x & 0x7c00u) == 0x7c00u || (x & 0x7c000000u) == 0x7c000000u;
}

// to = 64 rows from `first` and 64 columns from `column` of an array of T with whole rows (is_aligned); 0 outside. True: some
// number of this thread's is infinite or NaN.
template <class T>
RAPT_DEVICE bool load_half(HalfTile& to, const Array& a, int b, int h, int first, int rows, int column) {
  const auto* from = static_cast<const std::uint16_t*>(a.data) + a.offset(b, h) + column;
  bool special = false;
#pragma unroll
  for (unsigned n = threadIdx.x; n < kTile * 8; n += kThreads) {
    const int row = static_cast<int>(n / 8), c = static_cast<int>(n % 8 * 8);
    uint4 x = make_uint4(0, 0, 0, 0);
    if (first + row < rows && column + c < a.dim)
      x = *reinterpret_cast<const uint4*>(from + (first + row) * a.row_stride + c);
    special =
        special || has_special(x.x, T{}) || has_special(x.y, T{}) || has_special(x.z, T{}) || has_special(x.w, T{});
    *reinterpret_cast<uint4*>(&to.x[row][c]) = x;
  }
  return special;
}

// A tile from the 4 × 4 numbers of each thread.
template <class T>
RAPT_DEVICE void store_half(HalfTile& to, const float (&x)[4][4]) {
#pragma unroll
  for (int r = 0; r < 4; ++r)
    *reinterpret_cast<uint2*>(&to.x[thread_row() + r][thread_column()]) =
        make_uint2(pack(x[r][0], x[r][1], T{}), pack(x[r][2], x[r][3], T{}));
}

// A thread's own 4 × 4 numbers of a tile of float.
template <class T>
RAPT_DEVICE void copy_half(HalfTile& to, const float (&from)[kTile][kPitch]) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float4 x = *reinterpret_cast<const float4*>(&from[thread_row() + r][thread_column()]);
    *reinterpret_cast<uint2*>(&to.x[thread_row() + r][thread_column()]) =
        make_uint2(pack(x.x, x.y, T{}), pack(x.z, x.w, T{}));
  }
}

// A fragment → the 4 × 4 numbers of each thread, through shared memory.
RAPT_DEVICE void spread_fragment(float (&through)[kTile][kPitch], const Fragment& from, float (&to)[4][4]) {
  __syncthreads();
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      *reinterpret_cast<float2*>(&through[fragment_row(r)][fragment_column(n)]) =
          make_float2(from[n][2 * r], from[n][2 * r + 1]);
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float4 x = *reinterpret_cast<const float4*>(&through[thread_row() + r][thread_column()]);
    to[r][0] = x.x, to[r][1] = x.y, to[r][2] = x.z, to[r][3] = x.w;
  }
}

}  // namespace rapt::inline v1::cuda::pairs
