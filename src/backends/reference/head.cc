#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "attend/score_tile.h"
#include "attend/visibility.h"
#include "backends/host/host_parameters.h"
#include "backends/host/storage.h"
#include "backends/reference/head.h"
#include "rapt/error.h"

namespace rapt::inline v1::reference {
namespace {

template <class T>
constexpr T kHidden = -std::numeric_limits<T>::infinity();

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

template <class T>
Relative<T> make_relative(const Problem& problem, const ParameterValue& p, const Matrix<T>& q, std::int64_t b,
                          std::int64_t h) {
  Relative<T> relative;
  relative.slot = p.first_slot;
  relative.parameter = &p;
  relative.numbers = Matrix<T>(problem.keys, problem.queries);
  const T* table = p.head<T>(h);
  for (std::int64_t j = 0; j < problem.keys; ++j)
    for (std::int64_t i = 0; i < problem.queries; ++i) {
      const std::int64_t row = table_row(problem, p, b, i, j);
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

std::int64_t table_row(const Problem& problem, const ParameterValue& p, std::int64_t b, std::int64_t i,
                       std::int64_t j) {
  const std::int64_t key = problem.first_key + j, query = problem.first_key + problem.query_shift(b) + i;
  std::int64_t offset = key - query;
  const std::int64_t place = problem.query_place(b, i);
  if (p.spec->along == Along::grid_row) offset = key / problem.grid[1] - place / problem.grid[1];
  if (p.spec->along == Along::grid_col) offset = key % problem.grid[1] - place % problem.grid[1];
  return p.relative_rows[static_cast<std::size_t>(offset + p.relative_zero)];
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
    else relative.push_back(make_relative(problem, p, q_relative, batch, head));
  }
  if (!problem.mechanism->grid()) return;
  const auto place = [&](std::int64_t position, std::vector<T>& rows, std::vector<T>& cols) {
    const std::int64_t row = position / problem.grid[1];
    rows.push_back(static_cast<T>(row));
    cols.push_back(static_cast<T>(position % problem.grid[1]));
  };
  for (std::int64_t i = 0; i < problem.queries; ++i) place(problem.query_place(batch, i), query_row, query_col);
  for (std::int64_t j = 0; j < problem.keys; ++j) place(problem.first_key + j, key_row, key_col);
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
  ScoreTile<T> tile = score_tile_of<T>(problem, batch, head);
  tile.scores = pairs.row(first);

  tile.raw = raw.row(first);
  tile.keys = static_cast<int>(count);
  tile.columns = tile.stride = static_cast<int>(problem.queries);
  tile.first_query = problem.first_key + problem.query_shift(batch);
  tile.first_key = problem.first_key + first;
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
      for (std::int64_t i = 0; i < problem.queries; ++i) {
        // −∞ hides the pair, whatever its score is.
        const bool hidden = bias.at(i, j) == -std::numeric_limits<T>::infinity();
        logits.at(j, i) = hidden ? bias.at(i, j) : logits.at(j, i) + bias.at(i, j);
      }
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
  constexpr T kLargest = std::numeric_limits<T>::max();
  const auto queries = static_cast<std::size_t>(problem.queries);
  weights = Matrix<T>(problem.keys, problem.queries);
  slopes = Matrix<T>(problem.keys, problem.queries);
  row_max.assign(queries, kHidden<T>);
  row_sum.assign(queries, T(0));
  lse.assign(queries, kHidden<T>);
  // Keys of infinite score share the weight: ∞ − ∞ would be NaN.
  for (T& s : logits.data)
    if (s > kLargest) s = kLargest;
  for (std::int64_t i = 0; i < problem.queries; ++i) {
    // A NaN is taken and kept: the row is NaN.
    T& max = row_max[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < problem.keys; ++j)
      if (const T s = logits.at(j, i); s > max || std::isnan(s)) {
        max = s;
        if (std::isnan(s)) break;
      }
    switch (problem.normalizer->threshold) {
      case Threshold::exponential: softmax(i); break;
      case Threshold::first_largest: argmax(i); break;
      default: threshold(i);
    }
  }
}

template <class T>
void Head<T>::softmax(std::int64_t i) {
  const auto row = static_cast<std::size_t>(i);
  T& max = row_max[row];
  T& sum = row_sum[row];
  if (max == kHidden<T>) return;
  const ParameterValue& sink = problem.normalizer_parameters[0];
  if (sink.given && sink.head<T>(head)[0] > max) max = sink.head<T>(head)[0];
  for (std::int64_t j = 0; j < problem.keys; ++j) {
    if (logits.at(j, i) == kHidden<T>) continue;
    weights.at(j, i) = std::exp(logits.at(j, i) - max);
    sum += weights.at(j, i);
  }
  if (sink.given) sum += std::exp(sink.head<T>(head)[0] - max);
  lse[row] = max + std::log(sum);
  for (std::int64_t j = 0; j < problem.keys; ++j) {
    if (weights.at(j, i) != T(0)) weights.at(j, i) /= sum;
    slopes.at(j, i) = weights.at(j, i);
  }
}

template <class T>
void Head<T>::argmax(std::int64_t i) {
  const auto row = static_cast<std::size_t>(i);
  const T max = row_max[row];
  lse[row] = max;
  row_sum[row] = T(-1);
  for (std::int64_t j = problem.keys - 1; j >= 0 && max != kHidden<T>; --j) {
    const T s = logits.at(j, i);
    if (std::isnan(max) && s != kHidden<T>) weights.at(j, i) = max;
    if (std::isnan(max)) row_sum[row] = max;
    if (s != max) continue;
    if (row_sum[row] >= T(0)) weights.at(static_cast<std::int64_t>(row_sum[row]), i) = 0;
    row_sum[row] = static_cast<T>(j);
    weights.at(j, i) = 1;
  }
}

// weight(score − τ): τ = 0, or the one under which the row sums to 1, by bisection in double.
template <class T>
void Head<T>::threshold(std::int64_t i) {
  const NormalizerDefinition& n = *problem.normalizer;
  const auto row = static_cast<std::size_t>(i);
  std::vector<double> p(kMaxSlots);
  for (std::size_t s = 0; s < problem.normalizer_parameters.size(); ++s) p[s] = normalizer_value(problem, s, head);
  const bool solved = n.threshold == Threshold::solved;
  const T max = solved ? row_max[row] : T(0);
  row_max[row] = max;
  if (max == kHidden<T>) return;
  const auto sum_at = [&](double tau) {
    double sum = 0;
    for (std::int64_t j = 0; j < problem.keys; ++j)
      if (logits.at(j, i) != kHidden<T>)
        sum += n.scalar.weight(static_cast<double>(logits.at(j, i) - max) - tau, p.data());
    return sum;
  };
  double low = solved ? -n.reach : 0, high = 0;
  while (solved && !std::isnan(max)) {
    const double middle = (low + high) / 2;
    if (middle <= low || middle >= high) break;
    (sum_at(middle) >= 1 ? low : high) = middle;
  }
  double total = 0;
  for (std::int64_t j = 0; j < problem.keys; ++j) {
    const T s = logits.at(j, i);
    if (s == kHidden<T>) continue;
    const double x = static_cast<double>(s - max) - low;
    weights.at(j, i) = std::isnan(x) ? static_cast<T>(x) : static_cast<T>(n.scalar.weight(x, p.data()));
    if (weights.at(j, i) != T(0)) slopes.at(j, i) = static_cast<T>(n.scalar.slope(x, p.data()));
    total += static_cast<double>(weights.at(j, i));
  }
  row_sum[row] = static_cast<T>(low);
  if (solved) lse[row] = static_cast<T>(static_cast<double>(max) + low);
  else if (total != 0) lse[row] = static_cast<T>(std::log(total));
}

template Matrix<float> load_matrix<float>(const MatrixRef&, std::int64_t, std::int64_t);
template Matrix<double> load_matrix<double>(const MatrixRef&, std::int64_t, std::int64_t);
template Matrix<float> transposed<float>(const Matrix<float>&);
template Matrix<double> transposed<double>(const Matrix<double>&);
template struct Head<float>;
template struct Head<double>;

}  // namespace rapt::inline v1::reference
