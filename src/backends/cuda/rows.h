#pragma once

#include <cuda_runtime.h>

#include "backends/cuda/call.h"
#include "rapt/view.h"

// Kernels independent of the mechanism: rows on their way to the scores and back, and sums in a fixed order. `gate`:
// see BackwardArguments.
namespace rapt::inline v1::cuda {

// out = view's numbers, contiguous in f32.
void gather(const ConstView& view, float* out, cudaStream_t stream);
void store_zeros(const View& view, cudaStream_t stream);
// to[h·stride + first + n] = from[h or 0][n], the numbers of `size` that every head gets.
void spread_values(const float* from, bool per_head, int size, int heads, int stride, int first, float* to,
                   cudaStream_t stream);
void fill_values(float value, int heads, int stride, int first, float* to, cudaStream_t stream);

// Sets table.spread from its other members; `to` has heads · spread_stride numbers.
void spread_table(Table& table, int heads, float* to, cudaStream_t stream);
// The places on a grid of `count` positions from `first` on; those before 0 stand where 0 does.
void find_grid_places(int cols, std::int64_t first, std::int64_t count, float2* to, cudaStream_t stream);

// Changes to the rows of q or k: rotation by position, division by their length, an added vector.
struct RowChange {
  std::int32_t batches = 1, heads = 1, rows = 1, dim = 1;  // of the result, [batches, heads, rows, dim] in f32
  std::int32_t rotary_dims = 0;                            // 0: none
  double rotary_base = 10000;
  bool interleaved = false;
  bool unit = false;
  const float* shift = nullptr;  // [heads][dim]; null: none
  std::int64_t shift_stride = 0;
  std::int64_t first_position = 0;          // of row 0
  const std::int64_t* positions = nullptr;  // of row 0 of each batch, where they differ
  bool backward = false;                    // rotate the other way
};
void change_rows(const Array& from, const RowChange& change, float* to, cudaStream_t stream);

// The gradient of unit rows → of the rows x they were made from, in place: [batches, heads, rows, dim].
void unit_rows_backward(const Array& x, int batches, int heads, int rows, int dim, float* grad, cudaStream_t stream);

// A matrix [in, out] of each head, or of all.
struct Map {
  const float* numbers = nullptr;
  std::int64_t head_stride = 0;
  std::int32_t in = 1, out = 1;
};
// to[b, h] = from[b, h] @ map, for every batch and head; backward: @ mapᵀ.
void map_rows(const Array& from, const Map& map, int batches, int heads, int rows, bool backward, float* to,
              cudaStream_t stream);
// grad[b, h] = xᵀ @ dy: [batches, heads, in, out].
void map_gradient(const Array& x, const Array& dy, const Map& map, int batches, int heads, int rows, float* grad,
                  cudaStream_t stream);

// δ = Σ out∘grad_out over the value sets, less grad_lse: [batches, heads, queries].
void row_deltas(const Call& call, const Array* out, const Array* grad_out, const Array& grad_lse, float* delta,
                cudaStream_t stream);
// What the fast kernels of the backward pass read of every row, [batches, heads, padded]: the logarithm of the sum to base
// 2 (∞ past the end and where a row sees nothing) and δ, from an output and what rounding took from it; and δ once more,
// [batches, heads, queries], unless `plain_delta` is null. *redo becomes 1 where a δ is not finite.
struct PaddedRows {
  float* log2_sum = nullptr;
  float* delta = nullptr;
  std::int32_t padded = 0;
};
void prepare_rows(const Call& call, const RowStatistics& rows, const Array& out, const void* remainder,
                  const Array& grad_out, const Array& grad_lse, const PaddedRows& to, float* plain_delta, int* redo,
                  cudaStream_t stream);
// Each row's part of the gradient of its head's sink.
void sink_gradients(const Call& call, const RowStatistics& rows, const float* delta, float* grad, const int* gate,
                    cudaStream_t stream);

// target[b', h', row, d] = Σ of parts[b, h, row, d], and of more where it is given, over the batches and heads of the
// problem that share it.
void sum_shared(const float* parts, const float* more, int batches, int heads, const View& target, const int* gate,
                cudaStream_t stream);

// target[h', n] = Σ over batches, the heads that share it, and `count` parts of parts[b, h, part, first + n].
struct PartSums {
  const float* parts = nullptr;
  std::int32_t batches = 1, heads = 1;
  std::int64_t count = 1;   // parts of every batch and head
  std::int64_t stride = 1;  // numbers of a part
  std::int64_t first = 0;
  std::int64_t size = 1;  // numbers of the target for one head
  bool per_head = false;
  const int* gate = nullptr;
};
void sum_parts(const PartSums& sums, const View& target, cudaStream_t stream);
void sum_parts(const PartSums& sums, float* target, cudaStream_t stream);

// target[h', row, d] = Σ over the offsets of that row of by_offset[h', offset, d]; starts and order list them by row.
void sum_offsets(const float* by_offset, int heads, std::int64_t offsets, std::int64_t rows, int cols,
                 const std::int32_t* starts, const std::int32_t* order, const View& target, cudaStream_t stream);

}  // namespace rapt::inline v1::cuda
