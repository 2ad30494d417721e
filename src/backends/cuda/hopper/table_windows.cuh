#pragma once

#include <algorithm>

#include "backends/cuda/general/scores.cuh"
#include "backends/cuda/programs.h"

// The gradient of a table of numbers by position, between two kernels: QuerySide sums the pairs of 64 queries by offset,
// counted from those queries; here these windows are added up, by offset from any query.
namespace rapt::inline v1::cuda::hopper {

// Of a few tiles of every head at a time: as many as fit 256 MB, at least one.
struct TableWindows {
  static constexpr int kGroups = 2;  // windows of a tile
  std::int32_t tiles, at_a_time, width;

  explicit TableWindows(const Call& call)
      : tiles((call.queries + 64 * kGroups - 1) / (64 * kGroups)), width(call.keys + 192) {
    const std::int64_t tile = static_cast<std::int64_t>(call.batch) * call.heads * kGroups * width * 4;
    at_a_time = static_cast<std::int32_t>(std::clamp<std::int64_t>((256 << 20) / tile, 1, tiles));
  }
  std::int64_t count(const Call& call) const {
    return static_cast<std::int64_t>(call.batch) * call.heads * at_a_time * kGroups * width;
  }
};

inline std::int64_t table_memory(const Call& call) { return TableWindows(call).count(call) * 4; }

// A thread for each batch, head and offset. The first tiles begin the sum, those of later launches add to it.
template <int kGroups>
__global__ void sum_windows_kernel(const __grid_constant__ Call call, const __grid_constant__ FastGradients f,
                                   const TableGradient gradient) {
  const Table& table = call.tables[gradient.slot];
  const int blocks = (table.offsets + static_cast<int>(blockDim.x) - 1) / static_cast<int>(blockDim.x);
  const int line = static_cast<int>(blockIdx.x) / blocks;
  const int n = static_cast<int>(blockIdx.x) % blocks * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  if (n >= table.offsets) return;
  const int b = line / call.heads, from = n - table.zero + query_shift(call, b) + 63;
  float* to = gradient.out + static_cast<std::int64_t>(line) * table.offsets + n;
  double sum = f.first_tile == 0 ? 0 : *to;
  const float* window = f.windows + static_cast<std::int64_t>(line) * f.window_tiles * kGroups * f.window_width;
  for (int m = 0; m < f.window_tiles * kGroups; ++m, window += f.window_width) {
    const int place = from + (f.first_tile * kGroups + m) * 64;
    if (place >= 0 && place < call.keys + 63) sum += window[place];
  }
  *to = static_cast<float>(sum);
}

inline void sum_windows(const Call& call, const FastGradients& f, const TableGradient& gradient, cudaStream_t stream) {
  constexpr int kSmall = 256;
  const int blocks = (call.tables[gradient.slot].offsets + kSmall - 1) / kSmall;
  const auto grid = static_cast<unsigned>(blocks * call.batch * call.heads);
  sum_windows_kernel<TableWindows::kGroups><<<grid, kSmall, 0, stream>>>(call, f, gradient);
}

}  // namespace rapt::inline v1::cuda::hopper
