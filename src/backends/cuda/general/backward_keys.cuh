#pragma once

#include "backends/cuda/general/gradients.cuh"

// Gradients that a block of 64 keys owns: of the keys and of the values.
namespace rapt::inline v1::cuda {

template <class M>
struct KeyGradients {
  static constexpr bool kPair = detail::HasPair<M>;

  const Call& call;
  const BackwardArguments& arguments;
  Shared& s;
  TileGradients<M> tile;
  const int first_key;
  const int column;       // the first of up to 128 columns of dk
  const Columns columns;  // those of dv
  const bool wants_key, wants_value;
  float dk[4][8] = {};
  float dv[4][8] = {};

  RAPT_DEVICE KeyGradients(const Call& c, const BackwardArguments& a, Shared& shared, const Block& block)
      : call(c),
        arguments(a),
        s(shared),
        tile(c, a, shared, block.x / c.heads, block.x % c.heads),
        first_key(block.y * kTile),
        column(block.z * kWide),
        columns(columns_of(c, block.z)),
        wants_key(a.dk.data && c.uses_content && column < c.inner),
        wants_value(columns.count > 0 && a.dv[columns.set].data) {}

  RAPT_DEVICE void run() {
    for (int first = 0; first < call.queries; first += kTile) {
      tile.set_queries(first);
      if (!tile.scores.sees(first_key)) continue;
      tile.compute(first_key, wants_key);
      if (wants_key) add_keys();
      if (wants_value) add_values();
    }
    const int b = tile.scores.b, h = tile.scores.h;
    if (column < call.inner) store_wide(arguments.dk, b, h, first_key, call.keys, column, call.inner, dk);
    if (wants_value)
      store_wide(arguments.dv[columns.set], b, h, first_key, call.keys, columns.first, columns.first + columns.count,
                 dv);
  }

 private:
  RAPT_DEVICE void add_values() {
    __syncthreads();
    store_by_row(s.w, tile.weight);
    accumulate(s, dv, s.w, columns.count, tile.output_gradient(columns.set, columns.first));
  }

  RAPT_DEVICE void add_keys() {
    const Scores<M>& scores = tile.scores;
    float raw[4][4];
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) raw[r][c] = scores.through_score(r, c, tile.grad[r][c], [](int, float) {});
    const RowLoader queries(call.q, scores.b, scores.h, scores.i, call.queries, column);
    const int count = ::min(kWide, call.inner - column);
    __syncthreads();
    store_by_row(s.w, raw);
    if constexpr (kPair) add_pairs(queries, count);
    else accumulate(s, dk, s.w, count, queries);
  }

  // dk[d] += Σ ∂raw ∂pair/∂k[d].
  RAPT_DEVICE void add_pairs(const RowLoader& queries, int count) {
    using N = Dual<Number<float>, 1>;
    const Scores<M>& scores = tile.scores;
    load_wide(s, count, queries);
    const RowLoader keys(call.k, scores.b, scores.h, first_key, call.keys, column);
    const float* weights = call.pair_weights(scores.h);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int d = wide_column(n);
      if (d >= count) continue;
      const N w(Number<float>(weights ? weights[column + d] : 1.f));
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const N k = N::variable(Number<float>(keys(thread_row() + r, d)), 0);
#pragma unroll 1
        for (int query = 0; query < kTile; ++query) {
          const float g = s.w[query][thread_row() + r];
          if (g != 0) dk[r][n] += g * M{}.pair(N(Number<float>(s.wide[query][d])), k, w).d[0].value;
        }
      }
    }
  }
};

}  // namespace rapt::inline v1::cuda
