#pragma once

#include <algorithm>

#include "backends/cuda/general/requested.cuh"

// Shared by all kernels of the backward pass: a tile's weights and the gradient of its logits.
namespace rapt::inline v1::cuda {

template <class M>
struct TileGradients {
  const Call& call;
  const BackwardArguments& arguments;
  Shared& s;
  Scores<M> scores;
  const float* parameters;  // of the normaliser
  Row row[4];
  float delta[4];
  float weight[4][4], slope[4][4];
  float dp[4][4];
  float grad[4][4];  // ∂logit

  RAPT_DEVICE TileGradients(const Call& c, const BackwardArguments& a, Shared& shared, int b, int h)
      : call(c), arguments(a), s(shared), scores(c, shared, b, h), parameters(c.normalizer_numbers(h)) {}

  RAPT_DEVICE void set_queries(int first) {
    scores.set_queries(first);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      row[r] = row_of(call, arguments.rows, scores.b, scores.h, scores.query(r));
      delta[r] = arguments.delta && scores.query(r) < call.queries ? arguments.delta[row_index(r)] : 0.f;
    }
  }

  RAPT_DEVICE std::int64_t row_index(int r) const { return call.row(scores.b, scores.h, scores.query(r)); }

  RAPT_DEVICE RowLoader output_gradient(int set, int first_column = 0) const {
    return RowLoader(arguments.grad_out[set], scores.b, scores.h, scores.i, call.queries, first_column);
  }

  // Weights and, where wanted, dP and ∂logit of the keys from `first`.
  RAPT_DEVICE void compute(int first, bool with_gradient) {
    scores.compute(first);
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const Weight w = weight_of(call, row[r], parameters, scores.logit[r][c], scores.key(c));
        weight[r][c] = w.value;
        slope[r][c] = w.slope;
        dp[r][c] = 0;
      }
    if (!with_gradient) return;
    for (int n = 0; n < call.sets; ++n)
      multiply(s, dp, call.v[n].dim, output_gradient(n), RowLoader(call.v[n], scores.b, scores.h, first, call.keys));
    const Table& table = call.output_table;
    if (table.numbers)
      add_table_products(s, call, table, scores.b, scores.h, scores.i, scores.j, output_gradient(0), dp);
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) grad[r][c] = slope[r][c] == 0 ? 0.f : slope[r][c] * (dp[r][c] - delta[r]);
  }
};

RAPT_DEVICE void store_wide(const Array& array, int b, int h, int first_row, int rows, int first_column, int columns,
                            const float (&acc)[4][8]) {
  if (!array.data) return;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = first_row + thread_row() + r;
    if (row >= rows) continue;
#pragma unroll
    for (int n = 0; n < 8; ++n)
      if (first_column + wide_column(n) < columns)
        store(array, array.offset(b, h) + row * array.row_stride + first_column + wide_column(n), acc[r][n]);
  }
}

// A kernel whose blocks each run one Work<M>(call, arguments, shared, block). Behind a gate that is nearly always closed a
// few blocks are started, and take them all in turn where it is open.
template <template <class> class Work, class M>
__global__ __launch_bounds__(kThreads, 1) void gradient_kernel(const __grid_constant__ Call call,
                                                               const __grid_constant__ BackwardArguments arguments,
                                                               const __grid_constant__ Blocks blocks) {
  extern __shared__ float4 memory[];
  const auto run = [&](int n) { Work<M>(call, arguments, *reinterpret_cast<Shared*>(memory), blocks.at(n)).run(); };
  if constexpr (detail::HasPair<M>) {
    run(static_cast<int>(blockIdx.x));  // never behind a gate, and short of registers
  } else {
    if (arguments.gate && *arguments.gate == 0) return;
#pragma unroll 1
    for (int n = static_cast<int>(blockIdx.x); n < blocks.count(); n += static_cast<int>(gridDim.x)) {
      run(n);
      __syncthreads();
    }
  }
}

}  // namespace rapt::inline v1::cuda
