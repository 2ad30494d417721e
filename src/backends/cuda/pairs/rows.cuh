#pragma once

#include "backends/cuda/general/pairs.cuh"

// Rows of an element-wise score on their way to the tiles that its kernels read.
namespace rapt::inline v1::cuda::pairs {

template <class M>
constexpr bool has_fast() {
  if constexpr (HasFastTerms<M>) return true;
  else return false;
}

// A block has 64 rows of one batch and head of the array.
template <class M>
__global__ void tiles_kernel(const __grid_constant__ Array from, int rows, int inner,
                             const __grid_constant__ PairTiles to) {
  constexpr bool kFast = has_fast<M>();
  __shared__ float s[kTile][kTile + 1];
  const int thread = static_cast<int>(threadIdx.x), row = thread % kTile, first = static_cast<int>(blockIdx.y) * kTile,
            b = static_cast<int>(blockIdx.x) / to.heads, h = static_cast<int>(blockIdx.x) % to.heads;
  const RowLoader load_row(from, b, h, first, rows);
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.x) * to.tiles + blockIdx.y;
  auto* numbers = const_cast<float*>(to.numbers) + tile * to.dims * kTile;
  bool outside = false;
  float square = 0;
  for (int begin = 0; begin < to.dims; begin += kTile) {
    __syncthreads();
    for (int n = thread; n < kTile * kTile; n += kThreads) {
      const int d = begin + n % kTile;
      s[n / kTile][n % kTile] = d < inner ? load_row(n / kTile, d) : 0.f;
    }
    __syncthreads();
    for (int d = thread / kTile; d < kTile && begin + d < to.dims; d += kThreads / kTile) {
      float x = s[row][d];
      if constexpr (kFast) {
        outside = outside || !(fabsf(x) <= static_cast<float>(M::fast_pair_limit));
        square += x * x;
        x = first + row < rows && begin + d < inner ? M{}.fast_prepare(Number<float>(x)).value : 0.f;
      }
      numbers[(begin + d) * kTile + row] = x;
    }
  }
  if constexpr (kFast) {
    __shared__ float squares[kThreads / kTile][kTile];
    squares[thread / kTile][row] = square;
    __syncthreads();
    float sum = 0;
    for (int n = 0; n < kThreads / kTile; ++n) sum += squares[n][row];
    // NaN is not small.
    constexpr auto kLeast = static_cast<float>(M::fast_least * M::fast_least);
    const bool large = !(sum < kLeast * static_cast<float>(inner));
    __shared__ std::uint32_t of_warps[2][kThreads / 32];
    const std::uint32_t bit = 1u << (thread % 32);
    const std::uint32_t is_outside = __reduce_or_sync(~0u, outside ? bit : 0u),
                        is_large = __reduce_or_sync(~0u, large ? bit : 0u);
    if (thread % 32 == 0) of_warps[0][thread / 32] = is_outside, of_warps[1][thread / 32] = is_large;
    __syncthreads();
    if (thread < 4) {
      // Even warps have the rows below 32.
      std::uint32_t all = 0;
      for (int w = thread % 2; w < kThreads / 32; w += 2) all |= of_warps[thread / 2][w];
      const_cast<std::uint32_t*>(thread < 2 ? to.outside : to.large)[2 * tile + thread % 2] = all;
    }
  }
}

// The weights of a head times the factor of the fast form, and the offsets of its spans.
template <class M>
__global__ void weights_kernel(const float* from, int inner, int dims, float* weights, float* offsets) {
  const int head = static_cast<int>(blockIdx.x), spans = (dims + kPairSpan - 1) / kPairSpan;
  for (int d = static_cast<int>(threadIdx.x); d < dims; d += static_cast<int>(blockDim.x))
    weights[head * dims + d] = d < inner ? static_cast<float>(M::fast_factor) * from[head * inner + d] : 0.f;
  for (int n = static_cast<int>(threadIdx.x); n < spans; n += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int d = n * kPairSpan; d < ::min(inner, (n + 1) * kPairSpan); ++d) sum += from[head * inner + d];
    offsets[head * spans + n] = static_cast<float>(M::fast_offset) * sum;
  }
}

template <class M>
void prepare_tiles(const Array& from, int rows, int inner, const PairTiles& to, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(to.batches * to.heads), static_cast<unsigned>(to.tiles));
  tiles_kernel<M><<<grid, kThreads, 0, stream>>>(from, rows, inner, to);
}

template <class M>
void prepare_weights(const float* from, int heads, int inner, int dims, float* weights, float* offsets,
                     cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(heads));
  if constexpr (has_fast<M>()) weights_kernel<M><<<grid, kThreads, 0, stream>>>(from, inner, dims, weights, offsets);
}

}  // namespace rapt::inline v1::cuda::pairs
