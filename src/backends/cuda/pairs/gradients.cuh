#pragma once

#include "backends/cuda/general/gradients.cuh"
#include "backends/cuda/pairs/products.cuh"
#include "backends/cuda/pairs/slopes.cuh"

// The backward pass of element-wise scores under softmax. The keys and the queries of a head are cut into as many groups
// each; at step n of as many, the block of key group g has the queries of group g + n, cyclic. So each gradient of a row is
// added to by one block at a time, in the order of the steps, and every pair is computed once.
namespace rapt::inline v1::cuda::pairs {

struct GradientArguments {
  Call call;
  BackwardArguments arrays;  // dq, dk and dv: f32 of every batch and head apart, added to
  std::int32_t groups = 1, step = 0;
};

struct GradientShared : Shared {
  float weight_sums[kThreads / 32][kMaxPairDims];  // gradients of the weights of pair(), of each warp
  float quad_sums[kThreads / 32][kTile / 4];       // of ∂raw, over a warp's eight queries and four keys
};

// What a tile's weights and the gradients of its logits follow from. T: as of the forward pass.
template <class M, class T>
struct Tile {
  static constexpr bool kLow = !std::is_same_v<T, float>;

  const Call& call;
  const BackwardArguments& arrays;
  Shared& s;
  Scores<M> scores;

  RAPT_DEVICE Tile(const Call& c, const BackwardArguments& a, Shared& shared, int b, int h)
      : call(c), arrays(a), s(shared), scores(c, shared, b, h) {}

  RAPT_DEVICE HalfTile& half(int n) const { return reinterpret_cast<HalfTile*>(s.wide)[n]; }

  // p of the keys from `first_key` → s.w, [query][key].
  RAPT_DEVICE void compute_weights(int first_key) {
    scores.compute(first_key);
    float p[4][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const Row row = row_of(call, arrays.rows, scores.b, scores.h, scores.query(r));
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float logit = scores.logit[r][c];
        p[r][c] = logit == kHidden ? 0.f : expf(logit - row.max) * row.inverse;
      }
    }
    store_by_row(s.w, p);
  }
  // The thread's own.
  RAPT_DEVICE float weight(int r, int c) const { return s.w[thread_row() + r][thread_column() + c]; }

  // dp = dout·vᵀ over all value sets.
  RAPT_DEVICE void compute_products(float (&dp)[4][4]) {
    const int b = scores.b, h = scores.h;
    if constexpr (kLow) {
      Fragment sum = {};
      for (int n = 0; n < call.sets; ++n)
        for (int column = 0; column < call.v[n].dim; column += kTile) {
          __syncthreads();
          load_half<T>(half(0), arrays.grad_out[n], b, h, scores.i, call.queries, column);
          load_half<T>(half(1), call.v[n], b, h, scores.j, call.keys, column);
          __syncthreads();
          add_product<T, SumAlong::columns, SumAlong::columns>(sum, half(0), half(1));
        }
      spread_fragment(s.u, sum, dp);
    } else {
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) dp[r][c] = 0;
      for (int n = 0; n < call.sets; ++n)
        multiply(s, dp, call.v[n].dim, RowLoader(arrays.grad_out[n], b, h, scores.i, call.queries),
                 RowLoader(call.v[n], b, h, scores.j, call.keys));
    }
  }
};

// δ of 64 queries: Σ p·dp less ∂lse.
template <class M, class T>
__global__ __launch_bounds__(kThreads,
                             kBlocks<T>) void means_kernel(const __grid_constant__ GradientArguments arguments) {
  extern __shared__ float4 memory[];
  const Call& call = arguments.call;
  const int b = static_cast<int>(blockIdx.x) / call.heads, h = static_cast<int>(blockIdx.x) % call.heads;
  Tile<M, T> tile(call, arguments.arrays, *reinterpret_cast<Shared*>(memory), b, h);
  tile.scores.set_queries(static_cast<int>(blockIdx.y) * kTile);
  const KeyRange keys = tile.scores.key_tiles();
  float sum[4] = {};
  for (int first = keys.begin; first < keys.end; first += kTile) {
    tile.compute_weights(first);
    float dp[4][4];
    tile.compute_products(dp);
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (tile.weight(r, c) != 0) sum[r] += tile.weight(r, c) * dp[r][c];
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    float delta = reduce_row(sum[r], add);
    const int i = tile.scores.query(r);
    if (threadIdx.x % 16 != 0 || i >= call.queries) continue;
    const Array& lse = arguments.arrays.grad_lse;
    if (lse.data) delta -= load(lse, lse.offset(b, h) + i * lse.row_stride);
    arguments.arrays.mean[call.row(b, h, i)] = delta;
  }
}

// dq, dk and the gradients of the weights of one tile from its ∂raw in s.w, [query][key].
struct RowGradients {
  const Call& call;
  const BackwardArguments& arrays;
  GradientShared& s;
  const int b, h, i, j;  // the first query and key

  // A lane has two dimensions of 64, a warp eight queries; the warps take the keys in turns, so that they add to those of
  // eight keys one after the other.
  template <class Slopes, bool kUnrolled, class Queries, class Keys>
  RAPT_DEVICE void add(const Queries& queries, const Keys& keys) const {
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    const float* weights = call.pair_weights(h);
    auto* const rows = reinterpret_cast<float(*)[kPitch]>(s.a);  // of keys: dimensions before rows
    static_assert(sizeof(s.a) + sizeof(s.b) == sizeof(s.u));
#pragma unroll 1
    for (int first = 0; first < call.inner; first += kTile) {
      __syncthreads();
      for (unsigned n = threadIdx.x; n < kTile * kTile; n += kThreads) {
        const int d = static_cast<int>(n / kTile), row = static_cast<int>(n % kTile);
        rows[d][row] = first + d < call.inner ? keys(row, first + d) : 0.f;
        s.u[d][row] = 0;
      }
      const bool has[2] = {first + lane < call.inner, first + lane + 32 < call.inner};
      Slopes slopes;
      float q[8][2], dq[8][2] = {};
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int d = first + lane + 32 * n;
        slopes.set_weight(n, weights && has[n] ? weights[d] : 1.f);
#pragma unroll
        for (int m = 0; m < 8; ++m) q[m][n] = has[n] ? queries(8 * warp + m, d) : 0.f;
      }
      __syncthreads();
#pragma unroll 1
      for (int turn = 0; turn < 16; ++turn) {
        const int key = ((warp + turn / 2) % 8 * 2 + turn % 2) * 4;
        const FourNumbers k[2] = {load_four(&rows[lane][key]), load_four(&rows[lane + 32][key])};
        float dk[2][4] = {};
        slopes.begin(s.quad_sums[warp][key / 4]);
#pragma unroll kUnrolled ? 8 : 1
        for (int m = 0; m < 8; ++m) {
          const FourNumbers g = load_four(&s.w[8 * warp + m][key]);
#pragma unroll
          for (int c = 0; c < 4; ++c)
            slopes.add(g.x[c], q[m][0], k[0].x[c], q[m][1], k[1].x[c], dq[m][0], dk[0][c], dq[m][1], dk[1][c]);
        }
        slopes.end();
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          auto* const to = reinterpret_cast<float4*>(&s.u[lane + 32 * n][key]);
          const float4 x = *to;
          *to = make_float4(x.x + dk[n][0], x.y + dk[n][1], x.z + dk[n][2], x.w + dk[n][3]);
        }
        if (turn % 2 == 1) __syncthreads();
      }
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int d = first + lane + 32 * n;
        if (!has[n]) continue;
        if (arrays.pair_weight_grads) s.weight_sums[warp][d] += slopes.weight_sum(n);
        if (!arrays.dq.data) continue;
        float* to = row_of(arrays.dq, i + 8 * warp) + d;
#pragma unroll
        for (int m = 0; m < 8; ++m)
          if (i + 8 * warp + m < call.queries) to[m * arrays.dq.row_stride] += slopes.scaled(n, dq[m][n], q[m][n]);
      }
      if (arrays.dk.data) {
        for (unsigned n = threadIdx.x; n < kTile * kTile; n += kThreads) {
          const int row = static_cast<int>(n / kTile), d = static_cast<int>(n % kTile);
          if (j + row >= call.keys || first + d >= call.inner) continue;
          const float w = weights ? weights[first + d] : 1.f;
          row_of(arrays.dk, j + row)[first + d] += Slopes::scaled_key(w, s.u[d][row], rows[d][row]);
        }
      }
    }
  }

 private:
  RAPT_DEVICE float* row_of(const Array& array, int row) const {
    return static_cast<float*>(array.data) + array.offset(b, h) + row * array.row_stride;
  }
};

// From the tiles of the rows.
template <class Slopes>
RAPT_DEVICE void add_prepared_gradients(const RowGradients& rows) {
  const float *queries = rows.call.q_tiles.tile(rows.b, rows.h, rows.i / kTile),
              *keys = rows.call.k_tiles.tile(rows.b, rows.h, rows.j / kTile);
  rows.add<Slopes, true>([&](int row, int d) { return queries[d * kTile + row]; },
                         [&](int row, int d) { return keys[d * kTile + row]; });
}

// By pair(), from the rows themselves, where the tiles hold what the fast form reads. Not inlined: few tiles come here.
template <class M>
__device__ __noinline__ void add_exact_gradients(const Call& call, const BackwardArguments& arrays, GradientShared& s,
                                                 int b, int h, int i, int j) {
  RowGradients{call, arrays, s, b, h, i, j}.add<PairSlopes<M>, false>(RowLoader(call.q, b, h, i, call.queries),
                                                                      RowLoader(call.k, b, h, j, call.keys));
}

// What the pairs of one tile of queries and one of keys add to all gradients.
template <class M, class T>
class TileSums {
 public:
  static constexpr bool kLow = Tile<M, T>::kLow;
  static constexpr int kSlots = Scores<M>::kSlots;

  RAPT_DEVICE TileSums(const Call& c, const BackwardArguments& a, GradientShared& shared, int b, int h,
                       float (&values)[kSlots + 1])
      : call_(c), arrays_(a), s_(shared), tile_(c, a, shared, b, h), values_(values) {}

  RAPT_DEVICE void add(int first_query, int first_key) {
    tile_.scores.set_queries(first_query);
    if (!tile_.scores.sees(first_key)) return;
    tile_.compute_weights(first_key);
    for (int n = 0; n < call_.sets; ++n)
      if (arrays_.dv[n].data) add_values(n);
    if (arrays_.dq.data || arrays_.dk.data || arrays_.pair_weight_grads || arrays_.value_grads) add_scores();
  }

 private:
  RAPT_DEVICE void add_scores() {
    const Scores<M>& scores = tile_.scores;
    float dp[4][4], raw[4][4];
    tile_.compute_products(dp);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = scores.query(r);
      const float delta = i < call_.queries ? arrays_.delta[call_.row(scores.b, scores.h, i)] : 0.f;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float p = tile_.weight(r, c);
        const float grad = p == 0 ? 0.f : p * (dp[r][c] - delta);
        raw[r][c] = scores.through_score(r, c, grad, [&](int n, float g) { values_[n] += g; });
      }
    }
    if (!arrays_.dq.data && !arrays_.dk.data && !arrays_.pair_weight_grads) return;
    __syncthreads();
    store_by_row(s_.w, raw);
    __syncthreads();
    add_rows();
  }

  // dv += pᵀ·dout.
  RAPT_DEVICE void add_values(int set) {
    const Scores<M>& scores = tile_.scores;
    const Array &out = arrays_.grad_out[set], &dv = arrays_.dv[set];
    auto* const to = static_cast<float*>(dv.data) + dv.offset(scores.b, scores.h);
    const auto add_to = [&](int row, int column, float x) {
      if (scores.j + row < call_.keys && column < dv.dim) to[(scores.j + row) * dv.row_stride + column] += x;
    };
    if constexpr (kLow) {
      __syncthreads();
      copy_half<T>(tile_.half(2), s_.w);
      for (int column = 0; column < dv.dim; column += kTile) {
        if (column > 0) __syncthreads();
        const bool special = load_half<T>(tile_.half(0), out, scores.b, scores.h, scores.i, call_.queries, column);
        Fragment sum = {};
        if (__syncthreads_or(special) != 0) add_carefully<T, SumAlong::rows>(sum, s_.w, tile_.half(0));
        else add_product<T, SumAlong::rows, SumAlong::rows>(sum, tile_.half(2), tile_.half(0));
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) add_to(fragment_row(e / 2), column + fragment_column(n) + e % 2, sum[n][e]);
      }
    } else {
      for (int column = 0; column < dv.dim; column += kWide) {
        float sum[4][8] = {};
        accumulate(s_, sum, s_.w, ::min(kWide, dv.dim - column),
                   RowLoader(out, scores.b, scores.h, scores.i, call_.queries, column));
#pragma unroll
        for (int r = 0; r < 4; ++r)
#pragma unroll
          for (int n = 0; n < 8; ++n) add_to(thread_row() + r, column + wide_column(n), sum[r][n]);
      }
    }
  }

  // dq, dk and the gradients of the weights from ∂raw in s.w, [query][key].
  RAPT_DEVICE void add_rows() {
    const Scores<M>& scores = tile_.scores;
    if (const unsigned thread = threadIdx.x; thread < kThreads / 32 * (kTile / 4)) {
      const unsigned queries = thread / (kTile / 4) * 8, keys = thread % (kTile / 4) * 4;
      float sum = 0;
      for (unsigned m = 0; m < 8; ++m) {
        const FourNumbers g = load_four(&s_.w[queries + m][keys]);
        sum += (g.x[0] + g.x[1]) + (g.x[2] + g.x[3]);
      }
      s_.quad_sums[thread / (kTile / 4)][thread % (kTile / 4)] = sum;
    }
    const int b = scores.b, h = scores.h, i = scores.i, j = scores.j;
    const RowGradients rows{call_, arrays_, s_, b, h, i, j};
    if constexpr (!HasFastTerms<M>) add_prepared_gradients<PairSlopes<M>>(rows);
    else if (takes_fast(b, h, i / kTile, j / kTile)) add_prepared_gradients<FastSlopes<M>>(rows);
    else add_exact_gradients<M>(call_, arrays_, s_, b, h, i, j);
  }

  // Among small rows alone the gradients of the weights have no digits in the fast form.
  RAPT_DEVICE bool takes_fast(int b, int h, int query_tile, int key_tile) const {
    const PairTiles &q = call_.q_tiles, &k = call_.k_tiles;
    if (outside_rows(q, b, h, query_tile).any() || outside_rows(k, b, h, key_tile).any()) return false;
    const std::uint32_t *rows_q = q.large + 2 * q.index(b, h, query_tile),
                        *rows_k = k.large + 2 * k.index(b, h, key_tile);
    return (rows_q[0] | rows_q[1] | rows_k[0] | rows_k[1]) != 0;
  }

  const Call& call_;
  const BackwardArguments& arrays_;
  GradientShared& s_;
  Tile<M, T> tile_;
  float (&values_)[kSlots + 1];
};

// The tiles of a block: keys of one group, queries of another.
struct Tiles {
  int group, groups;
  int b, h, first_key, first_query, keys, queries;  // in tiles

  RAPT_DEVICE explicit Tiles(const GradientArguments& arguments)
      : group(static_cast<int>(blockIdx.x) % arguments.groups), groups(arguments.groups) {
    const Call& call = arguments.call;
    const int line = static_cast<int>(blockIdx.x) / groups, all_keys = tile_count(call.keys),
              all_queries = tile_count(call.queries);
    b = line / call.heads;
    h = line % call.heads;
    keys = (all_keys + groups - 1) / groups;
    queries = (all_queries + groups - 1) / groups;
    first_key = group * keys;
    first_query = (group + arguments.step) % groups * queries;
    keys = ::max(0, ::min(keys, all_keys - first_key));
    queries = ::max(0, ::min(queries, all_queries - first_query));
  }
  RAPT_DEVICE int count() const { return keys * queries; }
};

// Not inlined: what follows from the thread alone would otherwise be kept in registers from one tile to the next.
template <class M, class T>
__device__ __noinline__ void add_tile(const GradientArguments& arguments, int n,
                                      float (&values)[Scores<M>::kSlots + 1]) {
  extern __shared__ float4 memory[];
  const Tiles tiles(arguments);
  const int query = tiles.first_query + n % tiles.queries, key = tiles.first_key + n / tiles.queries;
  TileSums<M, T>(arguments.call, arguments.arrays, *reinterpret_cast<GradientShared*>(memory), tiles.b, tiles.h, values)
      .add(query * kTile, key * kTile);
}

// What a block has summed of the parameters.
template <class M>
__device__ __noinline__ void store_sums(const GradientArguments& arguments,
                                        const float (&values)[Scores<M>::kSlots + 1]) {
  extern __shared__ float4 memory[];
  auto& s = *reinterpret_cast<GradientShared*>(memory);
  constexpr int kSlots = Scores<M>::kSlots;
  const BackwardArguments& arrays = arguments.arrays;
  const std::int64_t groups = arguments.groups, part = blockIdx.x * groups + arguments.step;
  if (arrays.value_grads && kSlots > 0) sum_block(s, values, kSlots, arrays.value_grads + part * kSlots);
  if (!arrays.pair_weight_grads) return;
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < arguments.call.inner; d += kThreads) {
    float sum = 0;
    for (int w = 0; w < kThreads / 32; ++w) sum += s.weight_sums[w][d];
    arrays.pair_weight_grads[part * arguments.call.inner + d] = sum;
  }
}

template <class M, class T>
__global__ __launch_bounds__(kThreads,
                             kBlocks<T>) void gradients_kernel(const __grid_constant__ GradientArguments arguments) {
  extern __shared__ float4 memory[];
  auto& s = *reinterpret_cast<GradientShared*>(memory);
  constexpr int kSlots = Scores<M>::kSlots;
  for (unsigned n = threadIdx.x; n < kThreads / 32 * kMaxPairDims; n += kThreads)
    s.weight_sums[n / kMaxPairDims][n % kMaxPairDims] = 0;
  float values[kSlots + 1] = {};
#pragma unroll 1
  for (int n = Tiles(arguments).count() - 1; n >= 0; --n) add_tile<M, T>(arguments, n, values);
  store_sums<M>(arguments, values);
}

}  // namespace rapt::inline v1::cuda::pairs
