#pragma once

#include "backends/cuda/general/gradients.cuh"

// Gradients that belong to pairs: of a bias, and of the relative tables, whose blocks own 64 offsets.
namespace rapt::inline v1::cuda {

// The gradient of a tile of the bias, summed over all batches, heads and queries that share it, in order.
template <class M>
RAPT_DEVICE void bias_tile(const Call& call, const BackwardArguments& arguments, const BiasGradient& bias, Shared& s,
                           const Block& block) {
  const int own_batch = block.x / bias.heads, own_head = block.x % bias.heads;
  const int first_key = block.y * kTile;
  const bool one_row = bias.rows == 1;
  const int first_query = one_row ? 0 : block.z * kTile;
  const int last_query = one_row ? call.queries : first_query + 1;
  float sum[4][4] = {};
  for (int b = bias.batches == 1 ? 0 : own_batch; b < (bias.batches == 1 ? call.batch : own_batch + 1); ++b)
    for (int h = bias.heads == 1 ? 0 : own_head; h < (bias.heads == 1 ? call.heads : own_head + 1); ++h) {
      TileGradients<M> tile(call, arguments, s, b, h);
      for (int first = first_query; first < last_query; first += kTile) {
        tile.set_queries(first);
        if (!tile.scores.sees(first_key)) continue;
        tile.compute(first_key, true);
#pragma unroll
        for (int r = 0; r < 4; ++r)
#pragma unroll
          for (int c = 0; c < 4; ++c) sum[r][c] += tile.grad[r][c];
      }
    }
  const std::int64_t base = bias.out.offset(own_batch, own_head);
  if (one_row) {
    // Over the 16 rows of threads, in order.
    __syncthreads();
#pragma unroll
    for (int c = 0; c < 4; ++c)
      s.w[threadIdx.x / 16][thread_column() + c] = (sum[0][c] + sum[1][c]) + (sum[2][c] + sum[3][c]);
    __syncthreads();
    const int key = static_cast<int>(threadIdx.x);
    if (key >= kTile || first_key + key >= call.keys) return;
    float total = 0;
    for (int n = 0; n < 16; ++n) total += s.w[n][key];
    store(bias.out, base + first_key + key, total);
    return;
  }
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int query = first_query + thread_row() + r, key = first_key + thread_column() + c;
      if (query < bias.rows && key < call.keys) store(bias.out, base + query * bias.out.row_stride + key, sum[r][c]);
    }
}

// A block owns a tile; behind a gate a few blocks take all in turn, as in gradient_kernel.
template <class M>
__global__ __launch_bounds__(kThreads, 1) void backward_bias_kernel(const __grid_constant__ Call call,
                                                                    const __grid_constant__ BackwardArguments arguments,
                                                                    const __grid_constant__ BiasGradient bias,
                                                                    const __grid_constant__ Blocks blocks) {
  extern __shared__ float4 memory[];
  if (arguments.gate && *arguments.gate == 0) return;
#pragma unroll 1
  for (int n = static_cast<int>(blockIdx.x); n < blocks.count(); n += static_cast<int>(gridDim.x)) {
    bias_tile<M>(call, arguments, bias, *reinterpret_cast<Shared*>(memory), blocks.at(n));
    __syncthreads();
  }
}

template <class M>
__global__ __launch_bounds__(kThreads,
                             1) void backward_table_kernel(const __grid_constant__ Call call,
                                                           const __grid_constant__ BackwardArguments arguments,
                                                           TableGradient gradient) {
  if (arguments.gate && *arguments.gate == 0) return;
  extern __shared__ float4 memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const bool output = gradient.slot < 0;
  const Table& table = output ? call.output_table : call.tables[gradient.slot];
  const int b = static_cast<int>(blockIdx.x) / call.heads, h = static_cast<int>(blockIdx.x) % call.heads;
  const int split = static_cast<int>(blockIdx.z) % gradient.splits,
            column = static_cast<int>(blockIdx.z) / gradient.splits * kWide;
  const int base = static_cast<int>(blockIdx.y) * kTile - table.zero;
  const int tiles = (call.queries + kTile - 1) / kTile, columns = ::min(kWide, table.cols - column);
  const bool vectors = output || table.is_vector;
  float acc[4][8] = {};
  TileGradients<M> tile(call, arguments, s, b, h);
  for (int n = tiles * split / gradient.splits; n < tiles * (split + 1) / gradient.splits; ++n) {
    tile.set_queries(n * kTile);
    const KeyRange keys = tile.scores.key_tiles();
    for (int first = keys.begin; first < keys.end; first += kTile) {
      const OffsetRange range = tile_offsets(call, table, b, n * kTile, first);
      if (range.high < base || range.low >= base + kTile) continue;
      float pairs[4][4];
      tile.compute(first, !output);
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          pairs[r][c] = tile.weight[r][c];
          if (!output)
            tile.scores.through_score(r, c, tile.grad[r][c], [&](int slot, float g) {
              if (slot == gradient.slot) pairs[r][c] = g;
            });
        }
      __syncthreads();
      store_by_row(s.u, pairs);
      __syncthreads();
      sum_by_offset<OffsetTile::by_query>(s, call, table, b, n * kTile, first, base);
      // A table of numbers counts every pair once.
      const RowLoader rows =
          output ? tile.output_gradient(0, column) : RowLoader(call.q_relative, b, h, n * kTile, call.queries, column);
      accumulate(s, acc, s.w, columns, [&](int row, int d) { return vectors ? rows(row, d) : 1.f; });
    }
  }
  float* out =
      gradient.out + ((static_cast<std::int64_t>(blockIdx.x) * gradient.splits + split) * table.offsets) * table.cols;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const std::int64_t offset = static_cast<std::int64_t>(blockIdx.y) * kTile + thread_row() + r;
    if (offset >= table.offsets) continue;
#pragma unroll
    for (int n = 0; n < 8; ++n)
      if (wide_column(n) < columns) out[offset * table.cols + column + wide_column(n)] = acc[r][n];
  }
}

}  // namespace rapt::inline v1::cuda
