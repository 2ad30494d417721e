#pragma once

#include "backends/cuda/general/pairs.cuh"

// From rows of queries and keys to the scores of a tile and back, by a mechanism's hooks.
namespace rapt::inline v1::cuda {

inline constexpr float kHidden = -INFINITY;
inline constexpr float kLargest = 3.402823466e38f;

// Positions are within ±2^24, so that f32 holds them.
RAPT_DEVICE int query_shift(const Call& call, int b) {
  return static_cast<int>(call.masks.shift_count == 1 ? call.masks.shift : call.masks.shifts[b]);
}

RAPT_DEVICE int key_length(const Call& call, int b) {
  const Masks& m = call.masks;
  if (m.key_length_count == 0) return call.keys;
  return m.key_length_count == 1 ? m.key_length : static_cast<int>(m.key_lengths[b]);
}

struct KeyRange {
  int begin = 0, end = 0;
};

// The last sequence of a packed batch that starts at or before query i.
RAPT_DEVICE int sequence_of(const Masks& m, int i) {
  int low = 0, high = m.sequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (m.query_starts[middle] <= i ? low : high) = middle;
  }
  return low;
}

// The keys that query i of batch b may see by every mask but the dense one.
RAPT_DEVICE KeyRange visible_keys(const Call& call, int b, int i) {
  const Masks& m = call.masks;
  if (i >= call.queries) return {};
  int query_start = 0, queries = call.queries, key_start = 0, keys = call.keys;
  if (m.sequences > 0) {
    const int n = sequence_of(m, i);
    query_start = static_cast<int>(m.query_starts[n]);
    queries = static_cast<int>(m.query_starts[n + 1]) - query_start;
    key_start = static_cast<int>(m.key_starts[n]);
    keys = static_cast<int>(m.key_starts[n + 1]) - key_start;
  }
  const int place = i - query_start + (m.packed_bottom_right ? keys - queries : query_shift(call, b));
  int low = 0, high = keys;
  if (m.causal) high = ::min(high, place + 1);
  if (m.left >= 0) low = ::max(low, place - m.left);
  if (m.right >= 0) high = ::min(high, place + m.right + 1);
  low += key_start;
  high = ::min(high + key_start, key_length(call, b));
  return low < high ? KeyRange{low, high} : KeyRange{};
}

// Not inlined: it is long, and the general kernels ask for four rows at once.
static __device__ __noinline__ KeyRange key_range(const Call& call, int b, int i) { return visible_keys(call, b, i); }

// The keys that some of a block's queries may see, and those that all of them see. Ranges never move back from one query
// to the next, so that the first and the last query tell.
struct TileKeys {
  KeyRange some, all;
};
RAPT_DEVICE TileKeys tile_keys(const Call& call, int b, int first, int count) {
  const int last = ::min(first + count, call.queries) - 1;
  if (call.masks.sequences > 0) {
    // From the first query's sequence to the last one's; no tile is known to be whole.
    const Masks& m = call.masks;
    const int from = sequence_of(m, first), to = sequence_of(m, last);
    return {{static_cast<int>(m.key_starts[from]), ::min(key_length(call, b), static_cast<int>(m.key_starts[to + 1]))},
            {0, 0}};
  }
  const KeyRange low = visible_keys(call, b, first), high = visible_keys(call, b, last);
  const bool low_sees = low.begin < low.end, high_sees = high.begin < high.end;
  TileKeys keys;
  // A range that is empty says nothing about those between.
  keys.some = {low_sees ? low.begin : 0, high_sees ? high.end : call.keys};
  if (low_sees && high_sees) keys.all = {high.begin, low.end};
  return keys;
}

// Where a query or a key stands on the grid. A query before position 0 sees nothing, wherever it is put.
RAPT_DEVICE int query_place(const Call& call, int b, int i) {
  const int position = call.first_key + query_shift(call, b) + i;
  return position < 0 ? 0 : position;
}

// Key − query along rows and columns. Not inlined: the compiler would copy its divisions 16 times.
static __device__ __noinline__ float2 grid_offset(const Call& call, int b, int i, int j) {
  const int key = call.first_key + j, place = query_place(call, b, i), cols = call.grid_cols;
  return make_float2(static_cast<float>(key / cols - place / cols), static_cast<float>(key % cols - place % cols));
}

static __device__ __noinline__ int table_offset(const Call& call, const Table& table, int b, int i, int j) {
  const int key = call.first_key + j, place = query_place(call, b, i), cols = call.grid_cols;
  switch (table.along) {
    case Along::grid_row: return key / cols - place / cols;
    case Along::grid_col: return key % cols - place % cols;
    default: return j - i - query_shift(call, b);
  }
}

RAPT_DEVICE std::int64_t table_row(const Table& table, int offset) {
  const int n = offset + table.zero;
  return table.rows[n < 0 ? 0 : (n < table.offsets ? n : table.offsets - 1)];
}

// The offsets between the queries from i and the keys from j of a tile.
struct OffsetRange {
  int low, high;  // both included
};
static __device__ __noinline__ OffsetRange tile_offsets(const Call& call, const Table& table, int b, int i, int j) {
  const int last_i = ::min(i + kTile, call.queries) - 1, last_j = ::min(j + kTile, call.keys) - 1;
  if (table.along == Along::position)
    return {table_offset(call, table, b, last_i, j), table_offset(call, table, b, i, last_j)};
  const int cols = call.grid_cols, k0 = call.first_key + j, k1 = call.first_key + last_j, q0 = query_place(call, b, i),
            q1 = query_place(call, b, last_i);
  if (table.along == Along::grid_row) return {k0 / cols - q1 / cols, k1 / cols - q0 / cols};
  const bool key_wraps = k0 / cols != k1 / cols, query_wraps = q0 / cols != q1 / cols;
  return {(key_wraps ? 0 : k0 % cols) - (query_wraps ? cols - 1 : q1 % cols),
          (key_wraps ? cols - 1 : k1 % cols) - (query_wraps ? 0 : q0 % cols)};
}

// out[r][c] += rows(query)·table[row of the pair's offset]: the products with 64 offsets at a time, then each pair takes
// its own. Uses s.u.
template <class Rows>
RAPT_DEVICE void add_table_products(Shared& s, const Call& call, const Table& table, int b, int h, int i, int j,
                                    const Rows& rows, float (&out)[4][4]) {
  const OffsetRange range = tile_offsets(call, table, b, i, j);
  const float* numbers = table.numbers + h * table.head_stride;
  for (int base = range.low; base <= range.high; base += kTile) {
    float products[4][4] = {};
    multiply(s, products, table.cols, rows, [&](int row, int d) {
      return base + row <= range.high ? numbers[table_row(table, base + row) * table.cols + d] : 0.f;
    });
    __syncthreads();
    store_by_row(s.u, products);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int query = i + thread_row() + r, key = j + thread_column() + c;
        if (query >= call.queries || key >= call.keys) continue;
        const int place = table_offset(call, table, b, query, key) - base;
        if (place >= 0 && place < kTile) out[r][c] += s.u[thread_row() + r][place];
      }
  }
}

// Which index of a tile of sums comes first.
enum class OffsetTile { by_query, by_offset };

// s.w[n][i], or [i][n] by query, = Σ of s.u[i][j] over the keys of the tile at offset base + n from query i.
template <OffsetTile kTileOrder>
RAPT_DEVICE void sum_by_offset(Shared& s, const Call& call, const Table& table, int b, int i, int j, int base) {
  const int row = static_cast<int>(threadIdx.x) / 4, quarter = static_cast<int>(threadIdx.x) % 4 * (kTile / 4);
  const auto place = [&](int n) -> float& { return kTileOrder == OffsetTile::by_query ? s.w[row][n] : s.w[n][row]; };
  for (int n = quarter; n < quarter + kTile / 4; ++n) place(n) = 0;
  if (i + row >= call.queries) return;
  const int keys = ::min(kTile, call.keys - j);
  for (int key = 0; key < keys; ++key) {
    const int n = table_offset(call, table, b, i + row, j + key) - base;
    if (n >= quarter && n < quarter + kTile / 4) place(n) += s.u[row][key];
  }
}

// What hooks may know of every pair of a head; the positions are left to be filled in.
RAPT_DEVICE At<Number<float>> at_head(const Call& call, int b, int h) {
  At<Number<float>> at{};
  at.scale = call.scale;
  at.batch = b;
  at.head = h;
  at.queries = call.queries;
  at.keys = call.keys;
  at.settings = {call.settings, static_cast<std::size_t>(call.setting_count)};
  at.tables = call.free_tables;
  return at;
}

// Of a formula: visible() may read the parameters.
template <class M>
concept HasVisibleOfSlots = requires(const M& m, const At<Number<float>>& at,
                                     const detail::SlotsOf<M, Number<float>>& p) {
  m.visible(at, p);
};

template <class M>
struct Scores {
  using V = Number<float>;
  static constexpr int kSlots = detail::slot_count<M>();
  static constexpr bool kHasScore = detail::HasScore<M> || detail::HasForm<M>;
  // Bit n: slot n is relative. A kernel cannot read the mechanism's list of parameters, which the host has.
  static constexpr unsigned relative_slots() {
    unsigned slots = 0;
    for (int n = 0; n < kSlots; ++n) slots |= detail::slot_is_relative<M>(n) ? 1u << n : 0u;
    return slots;
  }
  static constexpr unsigned kRelativeSlots = relative_slots();
  static constexpr int relative_count() {
    int count = 0;
    for (int n = 0; n < kSlots; ++n) count += static_cast<int>(kRelativeSlots >> n & 1);
    return count;
  }
  static constexpr int kRelative = relative_count();
  static constexpr bool has_vectors() {
    if constexpr (detail::HasParameters<M>)
      for (const ParameterSpec& p : M::parameters)
        if (p.role == Role::relative_vector) return true;
    return false;
  }
  static constexpr bool kVectors = has_vectors();  // a table of vectors among them
  RAPT_DEVICE static constexpr bool is_relative(int slot) { return (kRelativeSlots >> slot & 1) != 0; }
  // Which of `relative` a slot is.
  RAPT_DEVICE static constexpr int relative_place(int slot) {
    int place = 0;
    for (int n = 0; n < slot; ++n) place += is_relative(n) ? 1 : 0;
    return place;
  }

  const Call& call;
  Shared& s;
  const int b, h;
  int i = 0, j = 0;  // first query and key of the tile
  KeyRange range[4];
  float values[kSlots + 1];
  float raw[4][4];
  float relative[kRelative + 1][4][4];
  float logit[4][4];  // after softcap, bias and masks; −∞: hidden

  RAPT_DEVICE Scores(const Call& c, Shared& shared, int batch, int head) : call(c), s(shared), b(batch), h(head) {
    if constexpr (kHasScore || HasVisibleOfSlots<M>)
      for (int n = 0; n < kSlots; ++n) values[n] = is_relative(n) ? 0.f : call.values[h * kSlots + n];
  }

  RAPT_DEVICE int query(int r) const { return i + thread_row() + r; }
  RAPT_DEVICE int key(int c) const { return j + thread_column() + c; }

  RAPT_DEVICE void set_queries(int first) {
    i = first;
#pragma unroll
    for (int r = 0; r < 4; ++r) range[r] = key_range(call, b, query(r));
  }

  // Whether a query of the tile may see a key from j to j + 63.
  RAPT_DEVICE bool sees(int first) const {
    bool any = false;
#pragma unroll
    for (int r = 0; r < 4; ++r) any = any || (range[r].begin < first + kTile && range[r].end > first);
    return __syncthreads_or(any) != 0;
  }

  // The tiles of keys that the queries may see, as numbers of keys.
  RAPT_DEVICE KeyRange key_tiles() const {
    __syncthreads();
    if (threadIdx.x == 0) s.range[0] = call.keys, s.range[1] = 0;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 4; ++r)
      if (threadIdx.x % 16 == 0 && range[r].begin < range[r].end) {
        atomicMin(&s.range[0], range[r].begin);
        atomicMax(&s.range[1], range[r].end);
      }
    __syncthreads();
    return {s.range[0] / kTile * kTile, s.range[1]};
  }

  RAPT_DEVICE At<V> at(int r, int c) const {
    At<V> at = at_head(call, b, h);
    const int position_i = call.first_key + query_shift(call, b) + query(r), position_j = call.first_key + key(c);
    at.i = static_cast<float>(position_i);
    at.j = static_cast<float>(position_j);
    at.delta = static_cast<float>(position_j - position_i);
    if constexpr (detail::has_grid<M>()) {
      const float2 offset = grid_offset(call, b, query(r), key(c));
      at.row = offset.x;
      at.col = offset.y;
    }
    return at;
  }

  // Everything up to the logits of the tile of keys from `first`.
  RAPT_DEVICE void compute(int first) {
    j = first;
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) raw[r][c] = 0;
    if constexpr (!detail::HasForm<M>)
      if (call.uses_content) compute_raw();
    if constexpr (kRelative > 0) compute_relative();
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) logit[r][c] = compute_logit(r, c);
  }

  // ∂logit → ∂score.
  RAPT_DEVICE float through_softcap(float score, float grad) const {
    if (call.softcap <= 0) return grad;
    const float t = tanhf(score / call.softcap);
    return grad * (1 - t * t);
  }

  // ∂logit → the gradient of what a formula's read number `read` of a table gave, and where that was.
  RAPT_DEVICE float through_read(int r, int c, float grad, int read, V (&place)[2]) const {
    if (grad == 0) return 0;
    detail::SlotsOf<M, V> p{};
#pragma unroll
    for (int n = 0; n < kSlots; ++n) p.values[n] = V(slot(n, r, c));
    const float slope = M{}.slope_of_read(V(raw[r][c]), p, at(r, c), read, place).d[0].value;
    if (slope == 0) return 0;
    float score = raw[r][c] * call.scale;
    if constexpr (kHasScore) score = detail::evaluate<M, V>(M{}, V(raw[r][c]), p, at(r, c)).value;
    return through_softcap(score, grad) * slope;
  }

  // ∂logit → ∂raw, returned; the derivatives by the slots are multiplied in and handed to take(slot, gradient).
  template <class F>
  RAPT_DEVICE float through_score(int r, int c, float grad, const F& take) const {
    if (grad == 0) {
      for (int n = 0; n < kSlots; ++n) take(n, 0.f);
      return 0;
    }
    if constexpr (!kHasScore) {
      return through_softcap(raw[r][c] * call.scale, grad) * call.scale;
    } else {
      using N = Dual<V, kSlots + 1>;
      detail::SlotsOf<M, N> p{};
#pragma unroll
      for (int n = 0; n < kSlots; ++n) p.values[n] = N::variable(V(slot(n, r, c)), n + 1);
      const N y = detail::evaluate<M, N>(M{}, N::variable(V(raw[r][c]), 0), p, at(r, c));
      grad = through_softcap(y.value.value, grad);
#pragma unroll
      for (int n = 0; n < kSlots; ++n) take(n, grad * y.d[n + 1].value);
      return grad * y.d[0].value;
    }
  }

 private:
  RAPT_DEVICE float slot(int n, int r, int c) const {
    return is_relative(n) ? relative[relative_place(n)][r][c] : values[n];
  }

  RAPT_DEVICE PlainPairs plain_pairs() const {
    const int q = i / kTile, k = j / kTile;
    return {outside_rows(call.q_tiles, b, h, q), outside_rows(call.k_tiles, b, h, k),
            small_rows(call.q_tiles, b, h, q, call.queries - i), small_rows(call.k_tiles, b, h, k, call.keys - j)};
  }

  RAPT_DEVICE void compute_raw() {
    const RowLoader queries(call.q, b, h, i, call.queries), keys(call.k, b, h, j, call.keys);
    if constexpr (detail::HasPair<M>) {
      if (call.q_tiles.numbers) {
        add_prepared_pairs<M>(s, call, b, h, i / kTile, j / kTile, raw);
        if constexpr (!HasFastTerms<M>) return;
      }
      if constexpr (HasFastTerms<M>)
        if (call.q_tiles.numbers) {
          if (!plain_pairs().any()) return;
          store_by_row(s.u, raw);
#pragma unroll
          for (int r = 0; r < 4; ++r)
#pragma unroll
            for (int c = 0; c < 4; ++c) raw[r][c] = 0;
        }
      const float* weights = call.pair_weights(h);
      for_pairs(s, raw, call.inner, queries, keys, [&](float sum, float x, float y, int d) {
        return sum + M{}.pair(V(x), V(y), V(weights ? weights[d] : 1.f)).value;
      });
      if constexpr (HasFastTerms<M>)
        if (call.q_tiles.numbers) {
          const PlainPairs plain = plain_pairs();
#pragma unroll
          for (int r = 0; r < 4; ++r)
#pragma unroll
            for (int c = 0; c < 4; ++c)
              if (!plain.has(thread_row() + r, thread_column() + c))
                raw[r][c] = s.u[thread_row() + r][thread_column() + c];
        }
    } else {
      multiply(s, raw, call.inner, queries, keys);
    }
  }

  RAPT_DEVICE void compute_relative() {
#pragma unroll
    for (int n = 0; n < kSlots; ++n) {
      if (!is_relative(n)) continue;
      const Table& table = call.tables[n];
      float(&out)[4][4] = relative[relative_place(n)];
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          out[r][c] = 0;
          if (!table.is_vector && query(r) < call.queries && key(c) < call.keys)
            out[r][c] =
                table.numbers[h * table.head_stride + table_row(table, table_offset(call, table, b, query(r), key(c)))];
        }
      if (table.is_vector)
        add_table_products(s, call, table, b, h, i, j, RowLoader(call.q_relative, b, h, i, call.queries), out);
    }
  }

  RAPT_DEVICE float compute_logit(int r, int c) {
    if (key(c) < range[r].begin || key(c) >= range[r].end) return kHidden;
    float x;
    detail::SlotsOf<M, V> p{};
    if constexpr (kHasScore || HasVisibleOfSlots<M>)
#pragma unroll
      for (int n = 0; n < kSlots; ++n) p.values[n] = V(slot(n, r, c));
    if constexpr (kHasScore) {
      x = detail::evaluate<M, V>(M{}, V(raw[r][c]), p, at(r, c)).value;
    } else {
      x = raw[r][c] * call.scale;
    }
    if (call.softcap > 0) x = call.softcap * tanhf(x / call.softcap);
    if (call.bias.data) {
      const float bias = load(call.bias, call.bias.offset(b, h) + query(r) * call.bias.row_stride + key(c));
      // −∞ hides the pair, whatever its score is.
      x = bias == kHidden ? kHidden : x + bias;
    }
    if (call.mask.data && !static_cast<const std::uint8_t*>(
                              call.mask.data)[call.mask.offset(b, h) + query(r) * call.mask.row_stride + key(c)])
      return kHidden;
    if constexpr (detail::HasVisible<M>)
      if (!M{}.visible(at(r, c))) return kHidden;
    if constexpr (HasVisibleOfSlots<M>)
      if (!M{}.visible(at(r, c), p)) return kHidden;
    // Keys of infinite score share the weight: ∞ − ∞ would be NaN.
    return x > kLargest ? kLargest : x;
  }
};

}  // namespace rapt::inline v1::cuda
