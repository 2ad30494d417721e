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

template <class M, class V>
void raw_tile(const PairTile<typename Lanes<V>::Scalar>& tile) {
  const M& m = hooks<M>(tile.object);
  for (int j = 0; j < tile.keys; ++j) {
    const auto* key = tile.key_rows + j * tile.key_stride;
    for (int c = 0; c < tile.columns; c += Lanes<V>::count) {
      // Four sums that do not wait for each other; short sums also lose fewer digits.
      V sums[4] = {V(0), V(0), V(0), V(0)};
      const auto term = [&](int d) {
        const V q = Lanes<V>::load(tile.queries + static_cast<std::ptrdiff_t>(d) * tile.stride + c);
        return m.pair(q, V(key[d]), tile.weights ? V(tile.weights[d]) : V(1));
      };
      int d = 0;
      for (; d + 4 <= tile.dim; d += 4)
        for (int n = 0; n < 4; ++n) sums[n] = sums[n] + term(d + n);
      for (; d < tile.dim; ++d) sums[0] = sums[0] + term(d);
      const V sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      Lanes<V>::store(sum, tile.scores + static_cast<std::ptrdiff_t>(j) * tile.stride + c);
    }
  }
}

template <class M, class V>
void raw_tile_backward(const PairTile<typename Lanes<V>::Scalar>& tile) {
  using N = Dual<V, 3>;
  const M& m = hooks<M>(tile.object);
  for (int d = 0; d < tile.dim; ++d) {
    const std::ptrdiff_t line = static_cast<std::ptrdiff_t>(d) * tile.stride;
    const N w = N::variable(tile.weights ? V(tile.weights[d]) : V(1), 2);
    V weight_sum(0);
    for (int j = 0; j < tile.keys; ++j) {
      const N k = N::variable(V(tile.key_rows[j * tile.key_stride + d]), 1);
      V key_sum(0);
      for (int c = 0; c < tile.columns; c += Lanes<V>::count) {
        const V grad = Lanes<V>::load(tile.grad + static_cast<std::ptrdiff_t>(j) * tile.stride + c);
        const auto live = !(grad == V(0));
        const N y = m.pair(N::variable(Lanes<V>::load(tile.queries + line + c), 0), k, w);
        auto* q = tile.grad_queries + line + c;
        Lanes<V>::store(Lanes<V>::load(q) + where(live, grad * y.d[0], V(0)), q);
        key_sum = key_sum + where(live, grad * y.d[1], V(0));
        weight_sum = weight_sum + where(live, grad * y.d[2], V(0));
      }
      tile.grad_keys[j * tile.grad_key_stride + d] += Lanes<V>::sum(key_sum);
    }
    if (tile.grad_weights) tile.grad_weights[d] += static_cast<double>(Lanes<V>::sum(weight_sum));
  }
}

template <class M, class V>
void fast_prepare(typename Lanes<V>::Scalar* values, std::int64_t count) {
  std::int64_t n = 0;
  for (; n + Lanes<V>::count <= count; n += Lanes<V>::count)
    Lanes<V>::store(M{}.fast_prepare(Lanes<V>::load(values + n)), values + n);
  for (; n < count; ++n) values[n] = M{}.fast_prepare(Number(values[n])).value;
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
  if constexpr (requires { M::fast_least; }) definition.fast_least = M::fast_least;
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
