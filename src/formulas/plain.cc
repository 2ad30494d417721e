#include <algorithm>
#include <limits>

#include "formulas/formula.h"

// Formulas one pair at a time, in double, straight from the graph: for the reference path.
namespace rapt::inline v1::formulas {
namespace {

template <class T>
double leaf_of(const ScoreTile<T>& tile, int j, int c, double grad, const Node& node, double row, double col) {
  const std::ptrdiff_t pair = static_cast<std::ptrdiff_t>(j) * tile.stride + c;
  switch (node.op) {
    case Op::raw: return static_cast<double>((tile.raw ? tile.raw : tile.scores)[pair]);
    case Op::grad: return grad;
    case Op::scale: return static_cast<double>(tile.scale);
    case Op::query: return static_cast<double>(tile.first_query + c);
    case Op::key: return static_cast<double>(tile.first_key + j);
    case Op::offset: return static_cast<double>(tile.first_key + j - tile.first_query - c);
    case Op::head: return static_cast<double>(tile.head);
    case Op::batch: return static_cast<double>(tile.batch);
    case Op::queries: return static_cast<double>(tile.queries_total);
    case Op::keys: return static_cast<double>(tile.keys_total);
    case Op::query_row: return static_cast<double>(tile.query_row[c]);
    case Op::query_col: return static_cast<double>(tile.query_col[c]);
    case Op::key_row: return static_cast<double>(tile.key_row[j]);
    case Op::key_col: return static_cast<double>(tile.key_col[j]);
    case Op::value: return static_cast<double>(tile.values[node.index]);
    case Op::relative: return static_cast<double>(tile.relative[node.index].base[tile.relative[node.index].at(j) + c]);
    case Op::table: {
      const TableRef<T>& table = tile.tables[node.index];
      return static_cast<double>(table.at(static_cast<T>(row), static_cast<T>(col)));
    }
    default: return 0;
  }
}

template <class T>
double leaf_of(const PairTile<T>& tile, int j, int c, int d, double grad, const Node& node) {
  switch (node.op) {
    case Op::pair_q: return static_cast<double>(tile.queries[static_cast<std::ptrdiff_t>(d) * tile.stride + c]);
    case Op::pair_k: return static_cast<double>(tile.key_rows[j * tile.key_stride + d]);
    case Op::pair_w: return tile.weights ? static_cast<double>(tile.weights[d]) : 1;
    default: return grad;
  }
}

}  // namespace

template <class T>
void Formula::score(const ScoreTile<T>& given) const {
  ScoreTile<T> tile = given;
  tile.raw = nullptr;  // forward, raw scores are where the scores will be
  double values[kMostNodes];
  for (int j = 0; j < tile.keys; ++j)
    for (int c = 0; c < tile.columns; ++c) {
      score_evaluator_.run(
          values, [&](const Node& node, double row, double col) { return leaf_of(tile, j, c, 0, node, row, col); });
      tile.scores[static_cast<std::ptrdiff_t>(j) * tile.stride + c] = static_cast<T>(values[score_]);
    }
}

template <class T>
void Formula::hide(const ScoreTile<T>& tile) const {
  const Condition& condition = tile.offsets_seen ? rest_ : all_;
  if (condition.holds == kNone) return;
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  double values[kMostNodes];
  for (int j = 0; j < tile.keys; ++j)
    for (int c = 0; c < tile.columns; ++c) {
      T& score = tile.scores[static_cast<std::ptrdiff_t>(j) * tile.stride + c];
      condition.evaluator.run(
          values, [&](const Node& node, double row, double col) { return leaf_of(tile, j, c, 0, node, row, col); });
      if (condition.open != kNone && values[condition.open] != 0) {
        if (score != kHidden) score = std::numeric_limits<T>::quiet_NaN();
      } else if (values[condition.holds] == 0) {
        score = kHidden;
      }
    }
}

template <class T>
void Formula::score_backward(const ScoreTile<T>& tile) const {
  double values[kMostNodes];
  for (int j = 0; j < tile.keys; ++j)
    for (int c = 0; c < tile.columns; ++c) {
      T& score = tile.scores[static_cast<std::ptrdiff_t>(j) * tile.stride + c];
      if (score == T(0)) continue;
      const auto grad = static_cast<double>(score);
      gradient_evaluator_.run(
          values, [&](const Node& node, double row, double col) { return leaf_of(tile, j, c, grad, node, row, col); });
      for (const Derivative& d : derivatives_) {
        const Node& leaf = graph_[d.of];
        const double slope = values[d.gradient];
        if (leaf.op == Op::value) tile.value_grads[leaf.index] += slope;
        else if (leaf.op == Op::relative) {
          const RelativeRows<T>& rows = tile.relative[leaf.index];
          rows.grad[rows.at(j) + c] += static_cast<T>(slope);
        } else if (leaf.op == Op::table && tile.tables[leaf.index].grad) {
          const auto place = [&](std::size_t n) {
            return leaf.children[n] == kNone ? T(0) : static_cast<T>(values[leaf.children[n]]);
          };
          const std::ptrdiff_t at = tile.tables[leaf.index].find(place(0), place(1));
          if (at >= 0) tile.tables[leaf.index].grad[at] += slope;
        }
      }
      if (raw_gradient_ != kNone) score = static_cast<T>(values[raw_gradient_]);
    }
}

template <class T>
void Formula::raw(const PairTile<T>& tile) const {
  double values[kMostNodes];
  for (int j = 0; j < tile.keys; ++j)
    for (int c = 0; c < tile.columns; ++c) {
      double sum = 0;
      for (int d = 0; d < tile.dim; ++d) {
        pair_evaluator_.run(values, [&](const Node& node, double, double) { return leaf_of(tile, j, c, d, 0, node); });
        sum += values[pair_];
      }
      tile.scores[static_cast<std::ptrdiff_t>(j) * tile.stride + c] = static_cast<T>(sum);
    }
}

template <class T>
void Formula::raw_backward(const PairTile<T>& tile) const {
  double values[kMostNodes];
  for (int j = 0; j < tile.keys; ++j)
    for (int c = 0; c < tile.columns; ++c) {
      const auto grad = static_cast<double>(tile.grad[static_cast<std::ptrdiff_t>(j) * tile.stride + c]);
      for (int d = 0; d < tile.dim && grad != 0; ++d) {
        pair_gradient_evaluator_.run(
            values, [&](const Node& node, double, double) { return leaf_of(tile, j, c, d, grad, node); });
        for (const Derivative& derivative : pair_derivatives_) {
          const double slope = values[derivative.gradient];
          switch (parsed_pair_[derivative.of].op) {
            case Op::pair_q:
              tile.grad_queries[static_cast<std::ptrdiff_t>(d) * tile.stride + c] += static_cast<T>(slope);
              break;
            case Op::pair_k: tile.grad_keys[j * tile.grad_key_stride + d] += static_cast<T>(slope); break;
            default:
              if (tile.grad_weights) tile.grad_weights[d] += slope;
          }
        }
      }
    }
}

namespace {

// The bounds of a table's numbers over a range of places; tables are not searched far.
template <class T>
Interval bounds_of(const TableRef<T>& table, const Interval& row, const Interval& col) {
  constexpr double kMost = 1024;
  const double r0 = std::floor(row.low), r1 = std::floor(row.high), c0 = std::floor(col.low), c1 = std::floor(col.high);
  const bool inside = !row.may_fail && !col.may_fail && r0 >= 0 && c0 >= 0 && r1 < static_cast<double>(table.rows) &&
                      c1 < static_cast<double>(table.cols);
  if (!inside || (r1 - r0 + 1) * (c1 - c0 + 1) > kMost) return Interval::everything();
  double low = HUGE_VAL, high = -HUGE_VAL;
  bool whole = true;
  for (auto r = static_cast<std::int64_t>(r0); r <= static_cast<std::int64_t>(r1); ++r)
    for (auto c = static_cast<std::int64_t>(c0); c <= static_cast<std::int64_t>(c1); ++c) {
      const auto x = static_cast<double>(table.data[r * table.cols + c]);
      if (std::isnan(x)) return Interval::everything();
      low = std::min(low, x);
      high = std::max(high, x);
      whole = whole && x == std::floor(x);
    }
  Interval bounds = Interval::of(low, high);
  bounds.whole = bounds.whole && whole;
  return bounds;
}

Interval between(std::int64_t low, std::int64_t high) {
  return Interval::of(static_cast<double>(low), static_cast<double>(high));
}

// Grid coordinates of the positions from `first` to `last`.
Interval rows_between(std::int64_t first, std::int64_t last, std::int64_t cols) {
  return between(first / cols, last / cols);
}
Interval cols_between(std::int64_t first, std::int64_t last, std::int64_t cols) {
  return first / cols == last / cols ? between(first % cols, last % cols) : between(0, cols - 1);
}

}  // namespace

template <class T>
Visible Formula::visible_tile(const ScoreTile<T>& tile) const {
  const Condition& condition = tile.offsets_seen ? rest_ : all_;
  if (condition.holds == kNone) return Visible::all;
  if (!condition.bounds || (condition.open != kNone && !condition.open_bounds)) return Visible::some;
  const std::int64_t last_query = tile.first_query + tile.columns - 1, last_key = tile.first_key + tile.keys - 1;
  // On the grid a query before position 0 stands at 0, as it does in the tiles.
  const std::int64_t first_place = std::max<std::int64_t>(0, tile.first_query),
                     last_place = std::max<std::int64_t>(0, last_query);
  const auto leaf = [&](const Node& node, const Interval& row, const Interval& col) {
    switch (node.op) {
      case Op::query: return between(tile.first_query, last_query);
      case Op::key: return between(tile.first_key, last_key);
      case Op::offset: return between(tile.first_key - last_query, last_key - tile.first_query);
      case Op::head: return between(tile.head, tile.head);
      case Op::batch: return between(tile.batch, tile.batch);
      case Op::queries: return between(tile.queries_total, tile.queries_total);
      case Op::keys: return between(tile.keys_total, tile.keys_total);
      case Op::scale: return Interval::of(static_cast<double>(tile.scale), static_cast<double>(tile.scale));
      case Op::value:
        return Interval::of(static_cast<double>(tile.values[node.index]), static_cast<double>(tile.values[node.index]));
      case Op::table: return bounds_of(tile.tables[node.index], row, col);
      case Op::query_row: return rows_between(first_place, last_place, tile.grid_cols);
      case Op::query_col: return cols_between(first_place, last_place, tile.grid_cols);
      case Op::key_row: return rows_between(tile.first_key, last_key, tile.grid_cols);
      case Op::key_col: return cols_between(tile.first_key, last_key, tile.grid_cols);
      default: return Interval::everything();
    }
  };
  if (condition.open != kNone && condition.open_bounds.run(leaf).high != 0) return Visible::some;
  const Interval seen = condition.bounds.run(leaf);
  if (seen.high == 0) return Visible::none;
  return seen.low != 0 ? Visible::all : Visible::some;
}

#define RAPT_FORMULA(T)                                             \
  template void Formula::score(const ScoreTile<T>&) const;          \
  template void Formula::score_backward(const ScoreTile<T>&) const; \
  template void Formula::hide(const ScoreTile<T>&) const;           \
  template void Formula::raw(const PairTile<T>&) const;             \
  template void Formula::raw_backward(const PairTile<T>&) const;    \
  template Visible Formula::visible_tile(const ScoreTile<T>&) const;
RAPT_FORMULA(float)
RAPT_FORMULA(double)
#undef RAPT_FORMULA

}  // namespace rapt::inline v1::formulas
