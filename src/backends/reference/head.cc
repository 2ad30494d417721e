#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "attend/storage.h"
#include "attend/visibility.h"
#include "backends/reference/head.h"
#include "rapt/error.h"

namespace rapt::reference {
namespace {

// x @ map; without a map x itself.
template <class T>
Matrix<T> apply_map(const Matrix<T>& x, const ParameterValue* map, std::int64_t h) {
  if (map == nullptr) return x;
  const T* w = map->head<T>(h);  // [in, out]
  Matrix<T> y(x.rows, map->cols);
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t in = 0; in < x.cols; ++in)
      for (std::int64_t out = 0; out < y.cols; ++out) y.at(r, out) += x.at(r, in) * w[in * y.cols + out];
  return y;
}

// A row of length zero has no direction and stays zero.
template <class T>
Matrix<T> unit_rows(Matrix<T> x) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    double square = 0;
    for (std::int64_t c = 0; c < x.cols; ++c)
      square += static_cast<double>(x.at(r, c)) * static_cast<double>(x.at(r, c));
    if (square == 0) continue;
    const double length = std::sqrt(square);
    for (std::int64_t c = 0; c < x.cols; ++c) x.at(r, c) = static_cast<T>(static_cast<double>(x.at(r, c)) / length);
  }
  return x;
}

template <class T>
Matrix<T> shifted(Matrix<T> x, const T* shift) {
  if (shift != nullptr)
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t c = 0; c < x.cols; ++c) x.at(r, c) += shift[c];
  return x;
}

// The rows of the table that the offsets −before … after read.
std::vector<std::int64_t> table_rows(const Problem& problem, const ParameterValue& p, std::int64_t before,
                                     std::int64_t after) {
  const TableShape shape{p.rows, problem.queries, problem.keys, problem.grid, problem.settings};
  std::vector<std::int64_t> rows;
  for (std::int64_t offset = -before; offset <= after; ++offset) {
    rows.push_back(problem.mechanism->definition().index(problem.object, offset, shape));
    if (rows.back() < 0 || rows.back() >= p.rows)
      throw Error("attend: index() of " + std::string(problem.mechanism->name()) + ": got row " +
                  std::to_string(rows.back()) + " of " + std::string(p.spec->name) + "; takes 0 to " +
                  std::to_string(p.rows - 1));
  }
  return rows;
}

template <class T>
Relative<T> make_relative(const Problem& problem, const ParameterValue& p, const Matrix<T>& q, std::int64_t h) {
  Relative<T> relative;
  relative.slot = p.first_slot;
  relative.parameter = &p;
  std::int64_t before = problem.queries - 1, after = problem.keys - 1;
  if (p.spec->along == Along::grid_row) before = after = problem.grid[0] - 1;
  if (p.spec->along == Along::grid_col) before = after = problem.grid[1] - 1;
  relative.zero = before;
  relative.table_rows = table_rows(problem, p, before, after);
  relative.numbers = Matrix<T>(problem.keys, problem.queries);
  const T* table = p.head<T>(h);
  for (std::int64_t j = 0; j < problem.keys; ++j)
    for (std::int64_t i = 0; i < problem.queries; ++i) {
      const std::int64_t row = relative.table_row(problem, i, j);
      T& number = relative.numbers.at(j, i);
      if (p.spec->role == Role::relative_value) number = table[row];
      else
        for (std::int64_t d = 0; d < p.cols; ++d) number += q.at(i, d) * table[row * p.cols + d];
    }
  return relative;
}

}  // namespace

template <class T>
Matrix<T> load_matrix(const MatrixRef& source, std::int64_t rows, std::int64_t cols) {
  Matrix<T> x(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r) load_row(source, r, cols, x.row(r));
  return x;
}

template <class T>
Matrix<T> transposed(const Matrix<T>& x) {
  Matrix<T> y(x.cols, x.rows);
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t c = 0; c < x.cols; ++c) y.at(c, r) = x.at(r, c);
  return y;
}

template <class T>
std::int64_t Relative<T>::table_row(const Problem& problem, std::int64_t i, std::int64_t j) const {
  std::int64_t offset = j - i;
  if (parameter->spec->along == Along::grid_row) offset = j / problem.grid[1] - i / problem.grid[1];
  if (parameter->spec->along == Along::grid_col) offset = j % problem.grid[1] - i % problem.grid[1];
  return table_rows[static_cast<std::size_t>(offset + zero)];
}

template <class T>
Head<T>::Head(const Problem& p, std::int64_t b, std::int64_t h)
    : problem(p), program(p.mechanism->definition().scalar.get<T>()), batch(b), head(h) {
  load_rows();
  load_slots();
  raw = Matrix<T>(p.keys, p.queries);
  if (p.uses_content) compute_raw();
  compute_scores();
  compute_logits();
  hide_masked();
  normalize();
}

template <class T>
const T* Head<T>::parameter(Role role) const {
  const ParameterValue* p = problem.find(role);
  return p != nullptr ? p->head<T>(head) : nullptr;
}

template <class T>
void Head<T>::load_rows() {
  q.given = load_matrix<T>(problem.q.at(batch, head), problem.queries, problem.query_dim);
  k.given = load_matrix<T>(problem.k.at(batch, head), problem.keys, problem.key_dim);
  q.mapped = apply_map(q.given, problem.find(Role::query_map), head);
  k.mapped = apply_map(k.given, problem.find(Role::key_map), head);
  q.unit = problem.mechanism->unit_rows() ? unit_rows(q.mapped) : q.mapped;
  k.unit = problem.mechanism->unit_rows() ? unit_rows(k.mapped) : k.mapped;
  q_scored = shifted(q.unit, parameter(Role::query_shift));
  q_relative = shifted(q.given, parameter(Role::relative_query_shift));
}

template <class T>
void Head<T>::load_slots() {
  values.assign(static_cast<std::size_t>(problem.mechanism->definition().slots), T(0));
  for (const ParameterValue& p : problem.parameters) {
    if (!p.given || !p.spec->is_slot()) continue;
    if (p.spec->role == Role::value) std::copy_n(p.head<T>(head), p.size(), values.begin() + p.first_slot);
    else relative.push_back(make_relative(problem, p, q_relative, head));
  }
  if (!problem.mechanism->grid()) return;
  for (std::int64_t n = 0; n < std::max(problem.queries, problem.keys); ++n) {
    const std::int64_t row = n / problem.grid[1];
    query_row.push_back(static_cast<T>(row));
    query_col.push_back(static_cast<T>(n % problem.grid[1]));
  }
  key_row = query_row;
  key_col = query_col;
}

template <class T>
PairTile<T> Head<T>::pair_tile(const Matrix<T>& queries) const {
  PairTile<T> tile;
  tile.object = problem.object;
  tile.queries = queries.data.data();
  tile.key_rows = k.unit.data.data();
  tile.weights = parameter(Role::pair_weight);
  tile.dim = static_cast<int>(k.unit.cols);
  tile.keys = static_cast<int>(problem.keys);
  tile.columns = tile.stride = static_cast<int>(problem.queries);
  tile.key_stride = k.unit.cols;
  return tile;
}

template <class T>
ScoreTile<T> Head<T>::score_tile(std::int64_t first, std::int64_t count, Matrix<T>& pairs) const {
  ScoreTile<T> tile;
  tile.object = problem.object;
  tile.scores = pairs.row(first);
  tile.raw = raw.row(first);
  tile.keys = static_cast<int>(count);
  tile.columns = tile.stride = static_cast<int>(problem.queries);
  tile.first_key = first;
  tile.batch = batch;
  tile.head = head;
  tile.queries_total = problem.queries;
  tile.keys_total = problem.keys;
  tile.scale = static_cast<T>(problem.scale);
  tile.settings = problem.settings;
  tile.values = values.data();
  for (const Relative<T>& r : relative) {
    tile.relative[r.slot].base = r.numbers.row(first);
    tile.relative[r.slot].stride = problem.queries;
  }
  if (problem.mechanism->grid()) {
    tile.query_row = query_row.data();
    tile.query_col = query_col.data();
    tile.key_row = key_row.data() + first;
    tile.key_col = key_col.data() + first;
  }
  return tile;
}

template <class T>
void Head<T>::compute_raw() {
  if (program.raw != nullptr) {
    const Matrix<T> queries = transposed(q_scored);
    PairTile<T> tile = pair_tile(queries);
    tile.scores = raw.data.data();
    program.raw(tile);
    return;
  }
  for (std::int64_t j = 0; j < problem.keys; ++j)
    for (std::int64_t i = 0; i < problem.queries; ++i)
      for (std::int64_t d = 0; d < k.unit.cols; ++d) raw.at(j, i) += q_scored.at(i, d) * k.unit.at(j, d);
}

template <class T>
void Head<T>::compute_scores() {
  scores = raw;
  if (program.score != nullptr) program.score(score_tile(0, problem.keys, scores));
  else
    for (T& s : scores.data) s *= static_cast<T>(problem.scale);
}

template <class T>
void Head<T>::compute_logits() {
  logits = scores;
  const T cap = static_cast<T>(problem.softcap);
  if (cap > 0)
    for (T& s : logits.data) s = cap * std::tanh(s / cap);
  if (problem.bias) {
    const Matrix<T> bias = load_matrix<T>(problem.bias.at(batch, head), problem.queries, problem.keys);
    for (std::int64_t j = 0; j < problem.keys; ++j)
      for (std::int64_t i = 0; i < problem.queries; ++i) logits.at(j, i) += bias.at(i, j);
  }
}

template <class T>
void Head<T>::hide_masked() {
  if (program.hide != nullptr) program.hide(score_tile(0, problem.keys, logits));
  std::vector<std::int64_t> begin(static_cast<std::size_t>(problem.queries)), end = begin;
  Visibility(problem).ranges(batch, 0, static_cast<int>(problem.queries), begin.data(), end.data());
  const auto* mask = static_cast<const std::uint8_t*>(problem.dense_mask.data);
  if (mask != nullptr) mask += problem.dense_mask.offset(batch, head);
  for (std::int64_t j = 0; j < problem.keys; ++j)
    for (std::int64_t i = 0; i < problem.queries; ++i) {
      const auto n = static_cast<std::size_t>(i);
      const bool in_range = begin[n] <= j && j < end[n];
      const bool unmasked = mask == nullptr || mask[i * problem.dense_mask.row_stride + j] != 0;
      if (!in_range || !unmasked) logits.at(j, i) = -std::numeric_limits<T>::infinity();
    }
}

template <class T>
void Head<T>::normalize() {
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  constexpr T kLargest = std::numeric_limits<T>::max();
  weights = Matrix<T>(problem.keys, problem.queries);
  row_max.assign(static_cast<std::size_t>(problem.queries), kHidden);
  row_sum.assign(static_cast<std::size_t>(problem.queries), T(0));
  // Keys of infinite score share the weight: ∞ − ∞ would be NaN.
  for (T& s : logits.data)
    if (s > kLargest) s = kLargest;
  for (std::int64_t i = 0; i < problem.queries; ++i) {
    T& max = row_max[static_cast<std::size_t>(i)];
    T& sum = row_sum[static_cast<std::size_t>(i)];
    std::int64_t first = -1;  // the first key of largest score
    for (std::int64_t j = 0; j < problem.keys; ++j) {
      const T s = logits.at(j, i);
      if (!(s > max) && !std::isnan(s)) continue;
      max = s;
      first = j;
      if (std::isnan(s)) break;  // and the row is NaN
    }
    if (first < 0) continue;
    for (std::int64_t j = 0; j < problem.keys; ++j) {
      const T s = logits.at(j, i);
      if (s == kHidden) continue;
      T& w = weights.at(j, i);
      if (problem.normalizer == Normalizer::softmax || std::isnan(max)) w = std::exp(s - max);
      else w = j == first ? T(1) : T(0);
      sum += w;
    }
    for (std::int64_t j = 0; j < problem.keys; ++j)
      if (weights.at(j, i) != T(0)) weights.at(j, i) /= sum;
  }
}

template Matrix<float> load_matrix<float>(const MatrixRef&, std::int64_t, std::int64_t);
template Matrix<double> load_matrix<double>(const MatrixRef&, std::int64_t, std::int64_t);
template Matrix<float> transposed<float>(const Matrix<float>&);
template Matrix<double> transposed<double>(const Matrix<double>&);
template struct Relative<float>;
template struct Relative<double>;
template struct Head<float>;
template struct Head<double>;

}  // namespace rapt::reference
