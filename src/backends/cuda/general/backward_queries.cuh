#pragma once

#include "backends/cuda/general/gradients.cuh"

// Gradients that a block of 64 queries owns: of the queries, and its part of those of the parameters that are numbers.
namespace rapt::inline v1::cuda {

template <class M>
struct QueryGradients {
  using Tile = Scores<M>;
  static constexpr bool kPair = detail::HasPair<M>;

  const Call& call;
  const BackwardArguments& arguments;
  Shared& s;
  TileGradients<M> tile;
  const int column;  // the first of up to 128 columns of dq
  float dq[4][8] = {};
  float dq_relative[Tile::kVectors ? 4 : 1][8] = {};
  float values[Tile::kSlots + 1] = {};
  float normalizer[kMaxSlots + 1] = {};
  float pair_weights[8] = {};

  RAPT_DEVICE QueryGradients(const Call& c, const BackwardArguments& a, Shared& shared, const Block& block)
      : call(c),
        arguments(a),
        s(shared),
        tile(c, a, shared, block.x / c.heads, block.x % c.heads),
        column(block.z * kWide) {
    tile.set_queries(block.y * kTile);
  }

  RAPT_DEVICE void run() {
    const int slots = arguments.normalizer_grads ? normalizer_slot_count(call) : 0;
    const KeyRange tiles = tile.scores.key_tiles();
    for (int first = tiles.begin; first < tiles.end; first += kTile) {
      tile.compute(first, true);
      if (arguments.mean) {
        add_means();
        continue;
      }
      if (slots > 0) add_normalizer_slopes(slots);
      float raw[4][4], relative[Tile::kRelative + 1][4][4];
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c)
          raw[r][c] = tile.scores.through_score(r, c, tile.grad[r][c], [&](int n, float g) {
            if (Tile::is_relative(n)) relative[Tile::relative_place(n)][r][c] = g;
            else values[n] += g;
          });
      if (call.uses_content) {
        if constexpr (kPair) add_pairs(raw);
        else if (column < call.inner) add_product(raw);
      }
      if constexpr (Tile::kVectors) add_tables(relative);
    }
    if (arguments.mean) store_means();
    else store();
  }

 private:
  // δ of each row, from weights and values that were not rounded. Its sums lie in dq, which is not computed then.
  RAPT_DEVICE void add_means() {
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (tile.slope[r][c] == 0) continue;
        dq[r][0] += tile.slope[r][c] * tile.dp[r][c];
        dq[r][1] += tile.slope[r][c];
      }
  }

  RAPT_DEVICE void store_means() {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float sum = reduce_row(dq[r][0], add), slopes = reduce_row(dq[r][1], add);
      const int i = tile.scores.query(r);
      if (threadIdx.x % 16 != 0 || i >= call.queries) continue;
      float delta = call.threshold != Threshold::solved ? sum : (slopes == 0 ? 0.f : sum / slopes);
      const Array& lse = arguments.grad_lse;
      if (lse.data) delta -= load(lse, lse.offset(tile.scores.b, tile.scores.h) + i * lse.row_stride);
      arguments.mean[tile.row_index(r)] = delta;
    }
  }

  RAPT_DEVICE void add_normalizer_slopes(int slots) {
    for (int r = 0; r < 4; ++r)
      for (int c = 0; c < 4; ++c)
        for (int n = 0; n < slots; ++n)
          if (tile.weight[r][c] != 0)
            normalizer[n] += tile.dp[r][c] * parameter_slope(call, tile.parameters, tile.scores.logit[r][c], n);
  }

  // dq += ∂raw·k.
  RAPT_DEVICE void add_product(const float (&raw)[4][4]) {
    __syncthreads();
    store_by_column(s.w, raw);
    accumulate(s, dq, s.w, ::min(kWide, call.inner - column),
               RowLoader(call.k, tile.scores.b, tile.scores.h, tile.scores.j, call.keys, column));
  }

  // dq[d] += Σ ∂raw ∂pair/∂q[d], and the pair weights' part.
  RAPT_DEVICE void add_pairs(const float (&raw)[4][4]) {
    using N = Dual<Number<float>, 3>;
    const Scores<M>& scores = tile.scores;
    const int columns = ::min(kWide, call.inner - column);
    __syncthreads();
    store_by_column(s.w, raw);
    load_wide(s, columns, RowLoader(call.k, scores.b, scores.h, scores.j, call.keys, column));
    const RowLoader queries(call.q, scores.b, scores.h, scores.i, call.queries, column);
    const float* weights = call.pair_weights(scores.h);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int d = wide_column(n);
      if (d >= columns) continue;
      const N w = N::variable(Number<float>(weights ? weights[column + d] : 1.f), 2);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const N q = N::variable(Number<float>(queries(thread_row() + r, d)), 0);
#pragma unroll 1
        for (int key = 0; key < kTile; ++key) {
          const float g = s.w[key][thread_row() + r];
          if (g == 0) continue;
          const N y = M{}.pair(q, N::variable(Number<float>(s.wide[key][d]), 1), w);
          dq[r][n] += g * y.d[0].value;
          pair_weights[n] += g * y.d[2].value;
        }
      }
    }
  }

  // dq_relative += Σ g·table[offset].
  RAPT_DEVICE void add_tables(const float (&relative)[Tile::kRelative + 1][4][4]) {
#pragma unroll
    for (int n = 0; n < Tile::kSlots; ++n) {
      if (!Tile::is_relative(n)) continue;
      const Table& table = call.tables[n];
      if (!table.is_vector || column >= table.cols || !arguments.dq_relative.data) continue;
      const Scores<M>& scores = tile.scores;
      const OffsetRange range = tile_offsets(call, table, scores.b, scores.i, scores.j);
      const float* numbers = table.numbers + scores.h * table.head_stride;
      __syncthreads();
      store_by_row(s.u, relative[Tile::relative_place(n)]);
      for (int base = range.low; base <= range.high; base += kTile) {
        __syncthreads();
        sum_by_offset<OffsetTile::by_offset>(s, call, table, scores.b, scores.i, scores.j, base);
        if constexpr (Tile::kVectors)
          accumulate(s, dq_relative, s.w, ::min(kWide, table.cols - column), [&](int row, int d) {
            return base + row <= range.high ? numbers[table_row(table, base + row) * table.cols + column + d] : 0.f;
          });
      }
    }
  }

  RAPT_DEVICE void store() {
    const Scores<M>& scores = tile.scores;
    store_wide(arguments.dq, scores.b, scores.h, scores.i, call.queries, column, call.inner, dq);
    if constexpr (Tile::kVectors)
      store_wide(arguments.dq_relative, scores.b, scores.h, scores.i, call.queries, column, arguments.dq_relative.dim,
                 dq_relative);
    if constexpr (kPair)
      if (arguments.pair_weight_grads) store_pair_weights();
    if (column != 0) return;
    if (arguments.value_grads && Tile::kSlots > 0)
      sum_block(s, values, Tile::kSlots, arguments.value_grads + part() * Tile::kSlots);
    if (arguments.normalizer_grads)
      sum_block(s, normalizer, kMaxSlots, arguments.normalizer_grads + part() * kMaxSlots);
  }

  // The block among those of all batches and heads.
  RAPT_DEVICE std::int64_t part() const {
    const Scores<M>& scores = tile.scores;
    return static_cast<std::int64_t>(scores.b * call.heads + scores.h) * tile_count(call.queries) + scores.i / kTile;
  }

  // Over the 16 threads of each column, in order.
  RAPT_DEVICE void store_pair_weights() {
    __syncthreads();
#pragma unroll
    for (int n = 0; n < 8; ++n) s.wide[threadIdx.x / 16][wide_column(n)] = pair_weights[n];
    __syncthreads();
    const int d = static_cast<int>(threadIdx.x);
    if (d >= kWide || column + d >= call.inner) return;
    float sum = 0;
    for (int n = 0; n < 16; ++n) sum += s.wide[n][d];
    arguments.pair_weight_grads[part() * call.inner + column + d] = sum;
  }
};

}  // namespace rapt::inline v1::cuda
