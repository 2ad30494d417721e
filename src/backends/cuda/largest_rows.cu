#include "backends/cuda/largest_rows.h"

#include <algorithm>

#include "backends/cuda/memory.h"

namespace rapt::inline v1::cuda {
namespace {

constexpr int kSmall = 256;

// A thread for each number.
__global__ void gather_values_kernel(const __grid_constant__ Call call, const float* keys, int set, Array out,
                                     std::int64_t count) {
  const Array& v = call.v[set];
  for (std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; n < count;
       n += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const std::int64_t row = n / out.dim, d = n - row * out.dim, line = row / call.queries;
    const int h = static_cast<int>(line % call.heads), b = static_cast<int>(line / call.heads);
    const float key = keys[row];
    if (key != key) continue;
    const float x = key < 0 ? 0.f : load(v, v.offset(b, h) + static_cast<std::int64_t>(key) * v.row_stride + d);
    store(out, out.offset(b, h) + (row - line * call.queries) * out.row_stride + d, x);
  }
}

// A block owns 64 keys of one head of v and goes through all rows that may have them, 256 at a time. A thread owns half of a
// column of 128: the keys of one parity.
__global__ __launch_bounds__(kSmall) void sum_values_kernel(const __grid_constant__ Call call, RowStatistics rows,
                                                            int set, Array grad, Array dv, int* redo) {
  constexpr int kKeys = 64, kColumns = 128;
  __shared__ float sums[kKeys][kColumns];
  __shared__ int key_of[kSmall];
  const Array& v = call.v[set];
  const int tiles = (call.keys + kKeys - 1) / kKeys, heads = call.heads / v.group;
  const int first_key = static_cast<int>(blockIdx.x) % tiles * kKeys;
  const int head = static_cast<int>(blockIdx.x) / tiles % heads, batch = static_cast<int>(blockIdx.x) / tiles / heads;
  const int column = static_cast<int>(blockIdx.y) * kColumns + static_cast<int>(threadIdx.x) % kColumns;
  const int parity = static_cast<int>(threadIdx.x) / kColumns;
  for (int key = parity; key < kKeys; key += 2) sums[key][threadIdx.x % kColumns] = 0;
  for (int b = v.batches == 1 ? 0 : batch; b < (v.batches == 1 ? call.batch : batch + 1); ++b)
    for (int h = head * v.group; h < (head + 1) * v.group; ++h)
      for (int first = 0; first < call.queries; first += kSmall) {
        const int own = first + static_cast<int>(threadIdx.x);
        __syncthreads();
        int key = -1;
        if (own < call.queries) {
          const std::int64_t row = call.row(b, h, own);
          if (rows.max[row] != rows.max[row]) *redo = 1;
          else key = static_cast<int>(rows.sum[row]) - first_key;
        }
        const bool is_here = key >= 0 && key < kKeys;
        key_of[threadIdx.x] = is_here ? key : -1;
        if (!__syncthreads_or(is_here)) continue;
        const std::int64_t from = grad.offset(b, h) + first * grad.row_stride + column;
        for (int n = 0; n < kSmall; ++n)
          if (key_of[n] >= 0 && key_of[n] % 2 == parity && column < v.dim)
            sums[key_of[n]][threadIdx.x % kColumns] += load(grad, from + n * grad.row_stride);
      }
  for (int key = parity; key < kKeys && first_key + key < call.keys; key += 2)
    if (column < v.dim)
      store(dv, batch * dv.batch_stride + head * dv.head_stride + (first_key + key) * dv.row_stride + column,
            sums[key][threadIdx.x % kColumns]);
}

}  // namespace

void gather_values(const Call& call, const RowStatistics& rows, const ForwardOutputs& outputs, cudaStream_t stream) {
  for (int n = 0; n < call.sets; ++n) {
    const std::int64_t count = static_cast<std::int64_t>(call.batch) * call.heads * call.queries * outputs.out[n].dim;
    if (!outputs.out[n].data || count == 0) continue;
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((count + kSmall - 1) / kSmall, 1 << 20));
    gather_values_kernel<<<blocks, kSmall, 0, stream>>>(call, rows.sum, n, outputs.out[n], count);
    check(cudaGetLastError(), "values");
  }
}

void sum_values(const Call& call, const RowStatistics& rows, const ValueSums& sums, int* redo, cudaStream_t stream) {
  for (int n = 0; n < call.sets; ++n) {
    const Array& v = call.v[n];
    if (!sums.dv[n].data || v.dim == 0) continue;
    const int blocks = (call.keys + 63) / 64 * (call.heads / v.group) * v.batches;
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>((v.dim + 127) / 128));
    sum_values_kernel<<<grid, kSmall, 0, stream>>>(call, rows, n, sums.grad_out[n], sums.dv[n], redo);
    check(cudaGetLastError(), "gradients of values");
  }
}

}  // namespace rapt::inline v1::cuda
