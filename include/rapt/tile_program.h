#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "rapt/contract.h"
#include "rapt/tiles.h"

// Runs a mechanism's hooks over one tile of scores.
namespace rapt::inline v1 {

namespace detail {

template <class M>
RAPT_FN const M& hooks(const void* object) {
  return *static_cast<const M*>(object);
}

template <class M, class V, class T>
RAPT_FN At<V> at_origin(const ScoreTile<T>& tile) {
  At<V> at{};
  at.scale = V(tile.scale);
  at.batch = tile.batch;
  at.head = tile.head;
  at.queries = tile.queries_total;
  at.keys = tile.keys_total;
  at.settings = tile.settings;
  return at;
}

template <class M, class V, class T>
RAPT_FN void move_to(At<V>& at, const ScoreTile<T>& tile, int key, int column) {
  at.i = Lanes<V>::iota(static_cast<T>(tile.first_query + column));
  at.j = V(static_cast<T>(tile.first_key + key));
  at.delta = V(static_cast<T>(tile.first_key + key - tile.first_query - column)) - Lanes<V>::iota(T(0));
  if constexpr (has_grid<M>()) {
    at.row = V(tile.key_row[key]) - Lanes<V>::load(tile.query_row + column);
    at.col = V(tile.key_col[key]) - Lanes<V>::load(tile.query_col + column);
  }
}

template <class M, class V>
void score_tile(const ScoreTile<typename Lanes<V>::Scalar>& tile) {
  constexpr int kSlots = slot_count<M>();
  const M& m = hooks<M>(tile.object);
  auto at = at_origin<M, V>(tile);
  SlotsOf<M, V> p{};
  for (int s = 0; s < kSlots; ++s)
    if (!slot_is_relative<M>(s)) p.values[s] = V(tile.values[s]);
  for (int j = 0; j < tile.keys; ++j) {
    auto* row = tile.scores + static_cast<std::ptrdiff_t>(j) * tile.stride;
    for (int c = 0; c < tile.columns; c += Lanes<V>::count) {
      move_to<M>(at, tile, j, c);
      for (int s = 0; s < kSlots; ++s)
        if (slot_is_relative<M>(s)) p.values[s] = Lanes<V>::load(tile.relative[s].base + tile.relative[s].at(j) + c);
      Lanes<V>::store(evaluate<M, V>(m, Lanes<V>::load(row + c), p, at), row + c);
    }
  }
}

template <class M, class V>
void score_tile_backward(const ScoreTile<typename Lanes<V>::Scalar>& tile) {
  constexpr int kSlots = slot_count<M>();
  using N = Dual<V, kSlots + 1>;
  const M& m = hooks<M>(tile.object);
  auto at = at_origin<M, V>(tile);
  V sums[kSlots + 1]{};
  SlotsOf<M, N> p{};
  for (int s = 0; s < kSlots; ++s) {
    sums[s] = V(0);
    if (!slot_is_relative<M>(s)) p.values[s] = N::variable(V(tile.values[s]), s + 1);
  }
  for (int j = 0; j < tile.keys; ++j) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(j) * tile.stride;
    for (int c = 0; c < tile.columns; c += Lanes<V>::count) {
      move_to<M>(at, tile, j, c);
      for (int s = 0; s < kSlots; ++s)
        if (slot_is_relative<M>(s))
          p.values[s] = N::variable(Lanes<V>::load(tile.relative[s].base + tile.relative[s].at(j) + c), s + 1);
      const N y = evaluate<M, N>(m, N::variable(Lanes<V>::load(tile.raw + row + c), 0), p, at);
      const V grad = Lanes<V>::load(tile.scores + row + c);
      // A hidden pair has no gradient, whatever its derivative is (it may be infinite).
      const auto live = !(grad == V(0));
      Lanes<V>::store(where(live, grad * y.d[0], V(0)), tile.scores + row + c);
      for (int s = 0; s < kSlots; ++s) {
        const V g = where(live, grad * y.d[s + 1], V(0));
        if (slot_is_relative<M>(s)) {
          auto* target = tile.relative[s].grad + tile.relative[s].at(j) + c;
          Lanes<V>::store(Lanes<V>::load(target) + g, target);
        } else {
          sums[s] = sums[s] + g;
        }
      }
    }
  }
  for (int s = 0; s < kSlots; ++s)
    if (!slot_is_relative<M>(s)) tile.value_grads[s] += static_cast<double>(Lanes<V>::sum(sums[s]));
}

template <class M, class V>
void hide_tile(const ScoreTile<typename Lanes<V>::Scalar>& tile) {
  using T = typename Lanes<V>::Scalar;
  const M& m = hooks<M>(tile.object);
  auto at = at_origin<M, V>(tile);
  const V hidden(-std::numeric_limits<T>::infinity());
  for (int j = 0; j < tile.keys; ++j)
    for (int c = 0; c < tile.columns; c += Lanes<V>::count) {
      move_to<M>(at, tile, j, c);
      T* score = tile.scores + static_cast<std::ptrdiff_t>(j) * tile.stride + c;
      Lanes<V>::store(where(m.visible(at), Lanes<V>::load(score), hidden), score);
    }
}

// Raw scores of kKeys keys: each vector of queries is loaded once for all of them.
template <class M, class V, int kKeys>
RAPT_FN void raw_rows(const M& m, const PairTile<typename Lanes<V>::Scalar>& tile, int first) {
  const auto* key = tile.key_rows + first * tile.key_stride;
  for (int c = 0; c < tile.columns; c += Lanes<V>::count) {
    // Four sums a key that do not wait for each other; short sums also lose fewer digits.
    V sums[4][kKeys];
    for (auto& part : sums)
      for (V& sum : part) sum = V(0);
    const auto add = [&](int d, V(&to)[kKeys]) {
      const V q = Lanes<V>::load(tile.queries + static_cast<std::ptrdiff_t>(d) * tile.stride + c);
      const V w = tile.weights ? V(tile.weights[d]) : V(1);
      for (int n = 0; n < kKeys; ++n) {
        const V k(key[n * tile.key_stride + d]);
        if constexpr (HasAddPair<M>) to[n] = m.add_pair(to[n], q, k, w);
        else to[n] = to[n] + m.pair(q, k, w);
      }
    };
    int d = 0;
    for (; d + 4 <= tile.dim; d += 4)
      for (int n = 0; n < 4; ++n) add(d + n, sums[n]);
    for (; d < tile.dim; ++d) add(d, sums[0]);
    for (int n = 0; n < kKeys; ++n)
      Lanes<V>::store((sums[0][n] + sums[1][n]) + (sums[2][n] + sums[3][n]),
                      tile.scores + static_cast<std::ptrdiff_t>(first + n) * tile.stride + c);
  }
}

template <class M, class V>
void raw_tile(const PairTile<typename Lanes<V>::Scalar>& tile) {
  constexpr int kKeys = 4;
  const M& m = hooks<M>(tile.object);
  int j = 0;
  for (; j + kKeys <= tile.keys; j += kKeys) raw_rows<M, V, kKeys>(m, tile, j);
  for (; j < tile.keys; ++j) raw_rows<M, V, 1>(m, tile, j);
}

// Gradients of kDims dimensions of kVectors vectors of queries, whose sums stay in registers over all keys.
template <class M, class V, int kDims, int kVectors, bool kWeights>
RAPT_FN void raw_columns_backward(const M& m, const PairTile<typename Lanes<V>::Scalar>& tile, int d, int column,
                                  ExactSum<V> (&weight_sums)[kDims]) {
  using T = typename Lanes<V>::Scalar;
  using N = Dual<V, kWeights ? 3 : 2>;
  const auto place = [&](int n, int v) {
    return static_cast<std::ptrdiff_t>(d + n) * tile.stride + column + v * Lanes<V>::count;
  };
  V query_sums[kDims][kVectors];
  for (auto& sums : query_sums)
    for (V& sum : sums) sum = V(0);
  for (int j = 0; j < tile.keys; ++j) {
    const T* grads = tile.grad + static_cast<std::ptrdiff_t>(j) * tile.stride + column;
    const T* key = tile.key_rows + j * tile.key_stride + d;
    V key_sums[kDims];
    for (V& sum : key_sums) sum = V(0);
    for (int v = 0; v < kVectors; ++v) {
      const V grad = Lanes<V>::load(grads + v * Lanes<V>::count);
      // A hidden pair has no gradient, whatever its derivative is (it may be infinite).
      const auto live = !(grad == V(0));
      const auto add = [&](V& sum, V slope) { sum = where(live, mul_add(grad, slope, sum), sum); };
      for (int n = 0; n < kDims; ++n) {
        N w(tile.weights ? V(tile.weights[d + n]) : V(1));
        if constexpr (kWeights) w.d[2] = V(1);
        const N y = m.pair(N::variable(Lanes<V>::load(tile.queries + place(n, v)), 0), N::variable(V(key[n]), 1), w);
        add(query_sums[n][v], y.d[0]);
        add(key_sums[n], y.d[of_difference<M>() ? 0 : 1]);
        if constexpr (kWeights) weight_sums[n].add(grad * where(live, y.d[2], V(0)));
      }
    }
    if constexpr (of_difference<M>())
      for (V& sum : key_sums) sum = -sum;
    T* grad_key = tile.grad_keys + j * tile.grad_key_stride + d;
    if constexpr (kDims == 4) Lanes<V>::add_sums(key_sums, grad_key);
    else
      for (int n = 0; n < kDims; ++n) grad_key[n] += Lanes<V>::sum(key_sums[n]);
  }
  for (int n = 0; n < kDims; ++n)
    for (int v = 0; v < kVectors; ++v) {
      T* to = tile.grad_queries + place(n, v);
      Lanes<V>::store(Lanes<V>::load(to) + query_sums[n][v], to);
    }
}

template <class M, class V, int kDims, bool kWeights>
RAPT_FN void raw_dims_backward(const M& m, const PairTile<typename Lanes<V>::Scalar>& tile, int d) {
  constexpr int kVectors = Lanes<V>::registers / 8;
  constexpr int kWidth = kVectors * Lanes<V>::count;
  ExactSum<V> weight_sums[kDims];
  int c = 0;
  for (; c + kWidth <= tile.columns; c += kWidth)
    raw_columns_backward<M, V, kDims, kVectors, kWeights>(m, tile, d, c, weight_sums);
  for (; c < tile.columns; c += Lanes<V>::count)
    raw_columns_backward<M, V, kDims, 1, kWeights>(m, tile, d, c, weight_sums);
  for (int n = 0; n < kDims && kWeights; ++n) tile.grad_weights[d + n] += weight_sums[n].total();
}

template <class M, class V, bool kWeights>
RAPT_FN void raw_all_backward(const PairTile<typename Lanes<V>::Scalar>& tile) {
  const M& m = hooks<M>(tile.object);
  int d = 0;
  for (; d + 4 <= tile.dim; d += 4) raw_dims_backward<M, V, 4, kWeights>(m, tile, d);
  for (; d < tile.dim; ++d) raw_dims_backward<M, V, 1, kWeights>(m, tile, d);
}

template <class M, class V>
void raw_tile_backward(const PairTile<typename Lanes<V>::Scalar>& tile) {
  if (tile.grad_weights) raw_all_backward<M, V, true>(tile);
  else raw_all_backward<M, V, false>(tile);
}

template <class M, class V>
void fast_prepare(typename Lanes<V>::Scalar* values, std::int64_t count) {
  std::int64_t n = 0;
  for (; n + Lanes<V>::count <= count; n += Lanes<V>::count)
    Lanes<V>::store(M{}.fast_prepare(Lanes<V>::load(values + n)), values + n);
  for (; n < count; ++n) values[n] = M{}.fast_prepare(Number(values[n])).value;
}

// Of one row, in lanes: how large its numbers are, and sums weighted by the squares of the weights.
template <class V>
struct RowSums {
  V most = V(0), weight = V(0), linear = V(0), square = V(0), capped = V(0);

  RAPT_FN void add(V x, V w) {
    const V own = w * w, size = x * x;
    most = max(most, abs(x));
    weight = weight + own;
    linear = mul_add(own, x, linear);
    square = mul_add(own, size, square);
    capped = mul_add(own, min(size, V(1)), capped);
  }
};

// Rows beyond fast_limit have no fast form. In the others it loses digits where the sum of a query and a key is small in
// nearly all dimensions: where both are small, or about equally far from two numbers that cancel.
template <class M, class V>
void fast_centers(const FastRows<typename Lanes<V>::Scalar>& rows) {
  using T = typename Lanes<V>::Scalar;
  constexpr int kLanes = Lanes<V>::count;
  const T limit(M::fast_limit);
  T least(0);
  // In f64 the loss is nothing beside what is promised.
  if constexpr (sizeof(T) == 4 && requires { M::fast_least; }) least = T(M::fast_least);
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const T* row = rows.rows + r * rows.stride;
    RowSums<V> lanes;
    RowSums<Number<T>> rest;
    int d = 0;
    for (; d + kLanes <= rows.dim; d += kLanes)
      lanes.add(Lanes<V>::load(row + d), rows.weights ? Lanes<V>::load(rows.weights + d) : V(1));
    for (; d < rows.dim; ++d) rest.add(row[d], rows.weights ? rows.weights[d] : T(1));
    const auto sum = [](V part, Number<T> more) { return Lanes<V>::sum(part) + more.value; };
    T& center = rows.centers[r];
    if (!(sum(where(lanes.most <= V(limit), V(0), V(1)), rest.most <= Number<T>(limit) ? T(0) : T(1)) == 0)) {
      center = std::numeric_limits<T>::quiet_NaN();
      continue;
    }
    center = std::numeric_limits<T>::infinity();
    if (least == 0) continue;
    const T linear = sum(lanes.linear, rest.linear), square = sum(lanes.square, rest.square);
    const T all = sum(lanes.weight, rest.weight), mean = linear / all;
    const T most = least * least * all;
    // Far from 0 a plain sum of numbers that cancel is exact, so that more is lost beside it.
    const T spread = -1 < mean && mean < 1 ? most : 4 * most;
    if (square - mean * linear <= spread) center = mean / least;
    else if (sum(lanes.capped, rest.capped) <= most) center = T(0);
  }
}

// The hooks of M over the lane type V.
template <class M, class V>
void fill_program(TileProgram<typename Lanes<V>::Scalar>& program) {
  if constexpr (HasForm<M> || HasScore<M>) {
    program.score = &score_tile<M, V>;
    program.score_backward = &score_tile_backward<M, V>;
  }
  if constexpr (HasVisible<M>) program.hide = &hide_tile<M, V>;
  if constexpr (HasVisibleTile<M>)
    program.visible_tile = [](const ScoreTile<typename Lanes<V>::Scalar>& tile) {
      return hooks<M>(tile.object)
          .visible_tile(TileRange{tile.first_query, tile.first_query + tile.columns - 1, tile.first_key,
                                  tile.first_key + tile.keys - 1, tile.batch, tile.head});
    };
  if constexpr (HasPair<M>) {
    program.raw = &raw_tile<M, V>;
    program.raw_backward = &raw_tile_backward<M, V>;
  }
  if constexpr (requires { M::fast_limit; }) {
    program.fast_raw = &M::template fast_raw<V>;
    program.fast_raw_backward = &M::template fast_raw_backward<V>;
    program.fast_prepare = &fast_prepare<M, V>;
    program.fast_centers = &fast_centers<M, V>;
  }
}

template <class M>
void fill_definition(MechanismDefinition& definition) {
  definition.formula = M::formula;
  if constexpr (HasParameters<M>) definition.parameters = M::parameters;
  if constexpr (HasSettings<M>) definition.settings = M::settings;
  definition.slots = slot_count<M>();
  if constexpr (requires { M::scaled; }) definition.scaled = M::scaled;
  definition.grid = has_grid<M>();
  if constexpr (requires { M::unit_rows; }) definition.unit_rows = M::unit_rows;
  if constexpr (requires { M::fast_limit; }) definition.fast_limit = M::fast_limit;
  fill_program<M, Number<float>>(definition.scalar.f32);
  fill_program<M, Number<double>>(definition.scalar.f64);
  if constexpr (HasIndex<M>) {
    definition.has_index = true;
    definition.index = [](const void* object, std::size_t, std::int64_t offset,
                          const TableShape& shape) -> std::int64_t { return hooks<M>(object).index(offset, shape); };
  }
  definition.uses_content = [](const void* object, std::span<const double> settings) {
    if constexpr (HasUsesContent<M>) return hooks<M>(object).uses_content(settings);
    static_cast<void>(object);
    static_cast<void>(settings);
    return !HasForm<M>;
  };
  if constexpr (HasForm<M>)
    definition.form = [](const void* object, const double* slots, double* coefficients,
                         double(*derivatives)[kMaxSlots]) {
      constexpr int kSlots = slot_count<M>();
      using N = Dual<Number<double>, kSlots + 1>;
      SlotsOf<M, N> p{};
      for (int s = 0; s < kSlots; ++s) p.values[s] = N::variable(slots[s], s);
      const QuadraticForm<N> f = hooks<M>(object).template form<N>(p);
      const N all[6] = {f.constant, f.row, f.col, f.row_row, f.col_col, f.row_col};
      for (int c = 0; c < 6; ++c) {
        coefficients[c] = all[c].value.value;
        for (int s = 0; s < kSlots; ++s) derivatives[c][s] = all[c].d[s].value;
      }
    };
}

}  // namespace detail

// The hooks of M over the lane type V.
template <class M, class V>
TileProgram<typename Lanes<V>::Scalar> make_program() {
  TileProgram<typename Lanes<V>::Scalar> program;
  if constexpr (detail::keeps_contract<M>()) detail::fill_program<M, V>(program);
  return program;
}

template <class M>
MechanismDefinition make_definition(std::string_view name) {
  MechanismDefinition definition;
  definition.name = name;
  if constexpr (detail::keeps_contract<M>()) detail::fill_definition<M>(definition);
  return definition;
}

}  // namespace rapt::inline v1
