#pragma once

#include "backends/cuda/general/block.cuh"
#include "backends/cuda/hopper/sm90.h"
#include "rapt/hooks.h"

// Raw scores that are a sum of pair() over the dimensions.
namespace rapt::inline v1::cuda {

// A number of a mechanism's fast form: its multiply-add and its reciprocal are one instruction each.
struct Quick {
  using Base = Quick;
  float value;

  Quick() = default;
  RAPT_DEVICE Quick(float v) : value(v) {}
  template <Constant A>
    requires(!std::is_same_v<A, float>)
  RAPT_DEVICE Quick(A v) : value(static_cast<float>(v)) {}
  friend RAPT_DEVICE Quick operator+(Quick a, Quick b) { return a.value + b.value; }
  friend RAPT_DEVICE Quick operator-(Quick a, Quick b) { return a.value - b.value; }
  friend RAPT_DEVICE Quick operator*(Quick a, Quick b) { return a.value * b.value; }
  friend RAPT_DEVICE Quick mul_add(Quick a, Quick b, Quick c) { return fmaf(a.value, b.value, c.value); }
  friend RAPT_DEVICE Quick reciprocal(Quick x) { return reciprocal_fast(x.value); }
};

// M has the terms of its raw score from prepared rows; see src/mechanisms/additive.h.
template <class M> concept HasFastTerms = requires(Quick x) { M::fast_terms(x, x, x, x, x, x, x); };

// Some of the rows of a tile.
struct RowSet {
  std::uint32_t low, high;

  RAPT_DEVICE bool any() const { return (low | high) != 0; }
  RAPT_DEVICE bool has(int row) const { return ((row < 32 ? low >> row : high >> (row - 32)) & 1) != 0; }
};
// Those outside the limit of the fast form.
RAPT_DEVICE RowSet outside_rows(const PairTiles& tiles, int b, int h, int tile) {
  const std::uint32_t* rows = tiles.outside + 2 * tiles.index(b, h, tile);
  return {rows[0], rows[1]};
}
// Those of the first `count` that are small.
RAPT_DEVICE RowSet small_rows(const PairTiles& tiles, int b, int h, int tile, int count) {
  const std::uint32_t* rows = tiles.large + 2 * tiles.index(b, h, tile);
  const auto first = [](int n) { return n >= 32 ? ~0u : (n <= 0 ? 0u : (1u << n) - 1); };
  return {~rows[0] & first(count), ~rows[1] & first(count - 32)};
}

// The pairs of a tile that get pair(), whatever else is in it: of a row outside the limit, or of two small ones.
struct PlainPairs {
  RowSet outside_q, outside_k, small_q, small_k;

  RAPT_DEVICE bool any() const { return outside_q.any() || outside_k.any() || (small_q.any() && small_k.any()); }
  RAPT_DEVICE bool has(int row, int column) const {
    return outside_q.has(row) || outside_k.has(column) || (small_q.has(row) && small_k.has(column));
  }
};

// Dimensions of a tile of rows → shared memory.
RAPT_DEVICE void load_dims(float (*to)[kPitch], const float* from, int dims) {
  for (unsigned n = threadIdx.x; n < static_cast<unsigned>(dims) * (kTile / 4); n += kThreads)
    *reinterpret_cast<float4*>(&to[n / (kTile / 4)][n % (kTile / 4) * 4]) = reinterpret_cast<const float4*>(from)[n];
}

struct FourNumbers {
  float x[4];
};
RAPT_DEVICE FourNumbers load_four(const float* from) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  return {{v.x, v.y, v.z, v.w}};
}

// raw += the terms of dimensions [d, end) in shared memory.
template <class M>
RAPT_DEVICE void add_fast_span(const Shared& s, float offset, int d, int end, float (&raw)[4][4]) {
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c) raw[r][c] += offset;
#pragma unroll 1
  for (; d < end; d += 2) {
    const FourNumbers q0 = load_four(&s.a[d][thread_row()]), q1 = load_four(&s.a[d + 1][thread_row()]),
                      k0 = load_four(&s.b[d][thread_column()]), k1 = load_four(&s.b[d + 1][thread_column()]);
    const float2 w = *reinterpret_cast<const float2*>(&s.weights[d]);
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c)
        raw[r][c] = M::template fast_terms<Quick>(raw[r][c], q0.x[r], k0.x[c], w.x, q1.x[r], k1.x[c], w.y).value;
  }
}

template <class M>
RAPT_DEVICE void add_pair_span(const Shared& s, int d, int end, float (&raw)[4][4]) {
  using V = Number<float>;
#pragma unroll 4
  for (; d < end; ++d) {
    const FourNumbers q = load_four(&s.a[d][thread_row()]), k = load_four(&s.b[d][thread_column()]);
    const V w = s.weights[d];
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if constexpr (detail::HasAddPair<M>) raw[r][c] = M{}.add_pair(V(raw[r][c]), V(q.x[r]), V(k.x[c]), w).value;
        else raw[r][c] += M{}.pair(V(q.x[r]), V(k.x[c]), w).value;
      }
  }
}

// raw += the raw scores of a tile of queries and a tile of keys. The terms of the fast form are summed span by span, each
// beginning with its offset: a sum of them alone would round at the size of all weights.
template <class M>
RAPT_DEVICE void add_prepared_pairs(Shared& s, const Call& call, int b, int h, int query_tile, int key_tile,
                                    float (&raw)[4][4]) {
  const int dims = call.q_tiles.dims, thread = static_cast<int>(threadIdx.x);
  const float *queries = call.q_tiles.tile(b, h, query_tile), *keys = call.k_tiles.tile(b, h, key_tile);
  const int weight_head = call.pair_weight_stride == 0 ? 0 : h;
  const float* weights = HasFastTerms<M> ? call.fast_weights + weight_head * dims : call.pair_weights(h);
  const float* offsets = call.fast_offsets + weight_head * ((dims + kPairSpan - 1) / kPairSpan);
  for (int first = 0; first < dims; first += kStep) {
    const int steps = ::min(kStep, dims - first);
    __syncthreads();
    load_dims(s.a, queries + first * kTile, steps);
    load_dims(s.b, keys + first * kTile, steps);
    if (thread < steps) s.weights[thread] = weights ? weights[first + thread] : 1.f;
    __syncthreads();
    if constexpr (HasFastTerms<M>)
      for (int d = 0; d < steps; d += kPairSpan)
        add_fast_span<M>(s, offsets[(first + d) / kPairSpan], d, ::min(d + kPairSpan, steps), raw);
    else add_pair_span<M>(s, 0, steps, raw);
  }
}

}  // namespace rapt::inline v1::cuda
