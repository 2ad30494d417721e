#pragma once

#include "backends/cuda/programs.h"

// The products of a block of 256 threads, in f32 from any storage type. A tile has 64 × 64 pairs; thread (ty, tx) has the
// rows 4·ty … +3 and the columns 4·tx … +3 of it.
namespace rapt::inline v1::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kStep = 32;          // numbers of a row that are multiplied at a time
inline constexpr int kPitch = kTile + 4;  // keeps columns apart in the banks, and rows aligned to 16 bytes
inline constexpr int kWide = 128;         // columns of an accumulator of 64 rows
inline constexpr int kWidePitch = kWide + 4;

struct Shared {
  float a[kStep][kPitch], b[kStep][kPitch];
  float w[kTile][kPitch], u[kTile][kPitch];
  float wide[kTile][kWidePitch];
  float sums[kThreads / 32][kMaxSlots + 1];
  float weights[kStep];  // of pair()
  int range[2];
};

// Which logical blocks to work on; a few real ones may take many in turn.
struct Block {
  int x, y, z;
};
struct Blocks {
  int x = 1, y = 1, z = 1;

  __host__ __device__ int count() const { return x * y * z; }
  RAPT_DEVICE Block at(int n) const { return {n % x, n / x % y, n / x / y}; }
};

// Unsigned until the end: a signed quotient takes several instructions.
RAPT_DEVICE int thread_row() { return static_cast<int>(threadIdx.x / 16 * 4); }
RAPT_DEVICE int thread_column() { return static_cast<int>(threadIdx.x % 16 * 4); }
// Column n of a thread's 8 in an accumulator of kWide.
RAPT_DEVICE int wide_column(int n) { return n / 4 * 64 + thread_column() + n % 4; }

// Over the 16 threads that have the same rows.
template <class F>
RAPT_DEVICE float reduce_row(float x, F f) {
#pragma unroll
  for (int mask = 1; mask < 16; mask *= 2) x = f(x, __shfl_xor_sync(~0u, x, mask));
  return x;
}
RAPT_DEVICE float add(float a, float b) { return a + b; }
// NaN stays.
RAPT_DEVICE float larger(float a, float b) { return a < b || b != b ? b : a; }

RAPT_DEVICE bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }

// acc[r][c] = combine(acc[r][c], a(row, d), b(column, d), d) for d in order. a and b give 0 outside their arrays.
template <class A, class B, class F>
RAPT_DEVICE void for_pairs(Shared& s, float (&acc)[4][4], int depth, const A& a, const B& b, const F& combine) {
  const int row = static_cast<int>(threadIdx.x / 4), lane = static_cast<int>(threadIdx.x % 4);
  for (int first = 0; first < depth; first += kStep) {
    __syncthreads();
#pragma unroll 2
    for (int e = 0; e < kStep / 4; ++e) {
      const int d = lane + 4 * e;
      s.a[d][row] = first + d < depth ? a(row, first + d) : 0.f;
      s.b[d][row] = first + d < depth ? b(row, first + d) : 0.f;
    }
    __syncthreads();
    const int steps = ::min(kStep, depth - first);
#pragma unroll 4
    for (int d = 0; d < steps; ++d) {
      const float4 x = *reinterpret_cast<const float4*>(&s.a[d][thread_row()]);
      const float4 y = *reinterpret_cast<const float4*>(&s.b[d][thread_column()]);
      const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) acc[r][c] = combine(acc[r][c], xs[r], ys[c], first + d);
    }
  }
}

// acc += a·bᵀ.
template <class A, class B>
RAPT_DEVICE void multiply(Shared& s, float (&acc)[4][4], int depth, const A& a, const B& b) {
  for_pairs(s, acc, depth, a, b, [](float sum, float x, float y, int) { return fmaf(x, y, sum); });
}

// Rows of an array from `first` on; 0 past `rows`.
struct RowLoader {
  const Array& array;
  std::int64_t base;
  int first, rows, first_column = 0;

  RAPT_DEVICE RowLoader(const Array& from, int b, int h, int first_row, int row_count, int column = 0)
      : array(from), base(from.offset(b, h)), first(first_row), rows(row_count), first_column(column) {}
  RAPT_DEVICE float operator()(int row, int d) const {
    return first + row < rows ? load(array, base + (first + row) * array.row_stride + first_column + d) : 0.f;
  }
};

// wide[row][column] = b(row, column), 0 from `columns` on. True: some number is infinite or NaN.
template <class B>
RAPT_DEVICE bool load_wide(Shared& s, int columns, const B& b) {
  bool special = false;
  __syncthreads();
  for (unsigned n = threadIdx.x; n < kTile * kWide; n += kThreads) {
    const int row = static_cast<int>(n / kWide), column = static_cast<int>(n % kWide);
    const float x = column < columns ? b(row, column) : 0.f;
    s.wide[row][column] = x;
    special = special || !is_finite(x);
  }
  return __syncthreads_or(special) != 0;
}

// acc[r][n] += Σ_m w[m][row r]·wide[m][column n] over the 64 m, for the first kColumns of a thread's columns. kCareful: a
// weight of 0 takes nothing, not even a NaN.
template <int kColumns, bool kCareful>
RAPT_DEVICE void add_weighted(const Shared& s, float (&acc)[4][8], const float (&w)[kTile][kPitch]) {
#pragma unroll 4
  for (int m = 0; m < kTile; ++m) {
    const float4 x = *reinterpret_cast<const float4*>(&w[m][thread_row()]);
    const float xs[4] = {x.x, x.y, x.z, x.w};
    float ys[kColumns];
#pragma unroll
    for (int n = 0; n < kColumns; n += 4) {
      const float4 y = *reinterpret_cast<const float4*>(&s.wide[m][wide_column(n)]);
      ys[n] = y.x, ys[n + 1] = y.y, ys[n + 2] = y.z, ys[n + 3] = y.w;
    }
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int n = 0; n < kColumns; ++n)
        if (!kCareful || xs[r] != 0) acc[r][n] = fmaf(xs[r], ys[n], acc[r][n]);
  }
}

// acc[r][n] += Σ_m w[m][row r]·b(m, column n) over the 64 m. A weight of 0 takes nothing, not even a NaN.
template <class B>
RAPT_DEVICE void accumulate(Shared& s, float (&acc)[4][8], const float (&w)[kTile][kPitch], int columns, const B& b) {
  const bool careful = load_wide(s, columns, b);
  if (careful) add_weighted<8, true>(s, acc, w);
  else if (columns > kWide / 2) add_weighted<8, false>(s, acc, w);
  else add_weighted<4, false>(s, acc, w);
}

// tile[row][column] or tile[column][row] = x; the threads that read the tile before have finished.
RAPT_DEVICE void store_by_row(float (&tile)[kTile][kPitch], const float (&x)[4][4]) {
#pragma unroll
  for (int r = 0; r < 4; ++r)
    *reinterpret_cast<float4*>(&tile[thread_row() + r][thread_column()]) =
        make_float4(x[r][0], x[r][1], x[r][2], x[r][3]);
}
RAPT_DEVICE void store_by_column(float (&tile)[kTile][kPitch], const float (&x)[4][4]) {
#pragma unroll
  for (int c = 0; c < 4; ++c)
    *reinterpret_cast<float4*>(&tile[thread_column() + c][thread_row()]) =
        make_float4(x[0][c], x[1][c], x[2][c], x[3][c]);
}

// Sums over the block in a fixed order, each written by one thread. Every thread takes part.
RAPT_DEVICE void sum_block(Shared& s, const float* x, int count, float* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  __syncthreads();
  for (int n = 0; n < count; ++n) {
    float sum = x[n];
    for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(~0u, sum, mask);
    if (lane == 0) s.sums[warp][n] = sum;
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < count) {
    float sum = 0;
    for (int w = 0; w < kThreads / 32; ++w) sum += s.sums[w][threadIdx.x];
    out[threadIdx.x] = sum;
  }
}

}  // namespace rapt::inline v1::cuda
