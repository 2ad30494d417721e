#include "backends/reference/head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/host/storage.h"

namespace rapt::inline v1 {
namespace reference {
namespace {

// out[i] = Σ_j w[j,i] v[j]. A weight of 0 takes nothing of v, not even a NaN.
template <class T>
Matrix<T> mix(const Matrix<T>& weights, const Matrix<T>& v) {
  Matrix<T> out(weights.cols, v.cols);
  for (std::int64_t j = 0; j < weights.rows; ++j)
    for (std::int64_t i = 0; i < weights.cols; ++i) {
      const T w = weights.at(j, i);
      if (w == T(0)) continue;
      for (std::int64_t d = 0; d < v.cols; ++d) out.at(i, d) += w * v.at(j, d);
    }
  return out;
}

// A table of vectors by offset: out[i] += Σ_j w[j,i] table[offset].
template <class T>
void add_output_table(const Head<T>& head, Matrix<T>& out) {
  const ParameterValue* p = head.problem.find(Role::relative_output);
  if (p == nullptr) return;
  for (std::int64_t j = 0; j < head.weights.rows; ++j)
    for (std::int64_t i = 0; i < head.weights.cols; ++i) {
      const T w = head.weights.at(j, i);
      const T* vector = p->head<T>(head.head) + table_row(head.problem, *p, head.batch, i, j) * p->cols;
      for (std::int64_t d = 0; d < p->cols && w != T(0); ++d) out.at(i, d) += w * vector[d];
    }
}

template <class T>
void store_out(const Head<T>& head, const Outputs& outputs) {
  const Problem& p = head.problem;
  for (std::size_t set = 0; set < p.v.size() && set < outputs.out.size(); ++set) {
    if (!outputs.out[set]) continue;
    const Matrix<T> v = load_matrix<T>(p.v[set].at(head.batch, head.head), p.keys, p.v[set].dim);
    Matrix<T> out = mix(head.weights, v);
    add_output_table(head, out);
    const MatrixRef target = matrix_of(outputs.out[set], head.batch, head.head);
    for (std::int64_t i = 0; i < p.queries; ++i) store_row(out.row(i), out.cols, target, i);
  }
}

template <class T>
void store_lse(const Head<T>& head, const Outputs& outputs) {
  if (!outputs.lse) return;
  const MatrixRef target = matrix_of(outputs.lse, head.batch, head.head);
  for (std::int64_t i = 0; i < head.problem.queries; ++i)
    store_row(&head.lse[static_cast<std::size_t>(i)], 1, target, i);
}

template <class T>
void store_weights(const Head<T>& head, const Outputs& outputs) {
  const Matrix<T> weights = outputs.weights.empty() ? Matrix<T>() : transposed(head.weights);
  for (const WeightsRequest& request : outputs.weights) {
    if (request.batch != head.batch || request.head != head.head) continue;
    const MatrixRef target = matrix_of(request.out, 0, 0);
    for (std::int64_t i = request.row_begin; i < request.row_end; ++i)
      store_row(weights.row(i), weights.cols, target, i - request.row_begin);
  }
}

template <class T>
void store_saved(const Head<T>& head, const Outputs& outputs) {
  if (outputs.saved == nullptr) return;
  const std::int64_t first = (head.batch * head.problem.heads + head.head) * head.problem.queries;
  std::copy(head.row_max.begin(), head.row_max.end(), outputs.saved->rows()->template max<T>() + first);
  std::copy(head.row_sum.begin(), head.row_sum.end(), outputs.saved->rows()->template sum<T>() + first);
}

// Partial results: under softmax Saved keeps the largest score and its sum, which these are.
template <class T>
void store_partial(const Head<T>& head, const Outputs& outputs) {
  for (std::int64_t i = 0; i < head.problem.queries; ++i) {
    const auto n = static_cast<std::size_t>(i);
    if (outputs.row_max) store_row(&head.row_max[n], 1, matrix_of(outputs.row_max, head.batch, head.head), i);
    if (outputs.row_sum) store_row(&head.row_sum[n], 1, matrix_of(outputs.row_sum, head.batch, head.head), i);
  }
}

// The keys that query i sees, largest score first, the first of equal ones first: so also by weight.
template <class T>
std::vector<std::int64_t> ranked_keys(const Head<T>& head, std::int64_t i) {
  std::vector<std::int64_t> keys;
  for (std::int64_t j = 0; j < head.problem.keys; ++j)
    if (head.logits.at(j, i) > -std::numeric_limits<T>::infinity()) keys.push_back(j);
  std::stable_sort(keys.begin(), keys.end(),
                   [&](std::int64_t a, std::int64_t b) { return head.logits.at(a, i) > head.logits.at(b, i); });
  return keys;
}

// What the weights of row i sum to.
template <class T>
T row_mass(const Head<T>& head, std::int64_t i) {
  T mass = 0;
  for (std::int64_t j = 0; j < head.problem.keys; ++j) mass += head.weights.at(j, i);
  return mass;
}

// Of a normaliser without a threshold: of its weights over their sum.
template <class T>
T entropy(const Head<T>& head, std::int64_t i) {
  const T mass = head.problem.normalizer->threshold == Threshold::none ? row_mass(head, i) : T(1);
  T sum = 0;
  for (std::int64_t j = 0; j < head.problem.keys; ++j) {
    const T w = head.weights.at(j, i) / (mass == T(0) ? T(1) : mass);
    if (w != T(0)) sum -= w * std::log(w);
  }
  return sum;
}

// The expected position [axes] and its covariance [axes, axes] of row i.
template <class T>
void spread(const Head<T>& head, std::int64_t i, int axes, std::int64_t grid_cols, T* mean, T* covariance) {
  const auto coordinate = [&](std::int64_t j, int axis) {
    if (axes == 1) return static_cast<T>(j);
    return static_cast<T>(axis == 0 ? j / grid_cols : j % grid_cols);
  };
  std::fill_n(mean, axes, T(0));
  std::fill_n(covariance, axes * axes, T(0));
  // One over a small mass may be infinite.
  const T mass = row_mass(head, i), divisor = mass == T(0) ? T(1) : mass;
  for (std::int64_t j = 0; j < head.problem.keys; ++j)
    for (int a = 0; a < axes; ++a) mean[a] += head.weights.at(j, i) / divisor * coordinate(j, a);
  for (std::int64_t j = 0; j < head.problem.keys; ++j) {
    const T w = head.weights.at(j, i) / divisor;
    if (w == T(0)) continue;
    for (int a = 0; a < axes; ++a)
      for (int b = 0; b < axes; ++b)
        covariance[a * axes + b] += w * (coordinate(j, a) - mean[a]) * (coordinate(j, b) - mean[b]);
  }
}

template <class T>
void store_statistics(const Head<T>& head, const Statistics& wanted) {
  const Problem& p = head.problem;
  const int axes = wanted.grid[0] > 0 ? 2 : 1;
  for (std::int64_t i = 0; i < p.queries; ++i) {
    const std::int64_t row = (head.batch * p.heads + head.head) * p.queries + i;
    if (wanted.entropy) static_cast<T*>(wanted.entropy.data)[row] = entropy(head, i);
    T mean[2], covariance[4];
    if (wanted.position || wanted.covariance) spread(head, i, axes, wanted.grid[1], mean, covariance);
    if (wanted.position) std::copy_n(mean, axes, static_cast<T*>(wanted.position.data) + row * axes);
    if (wanted.covariance)
      std::copy_n(covariance, axes * axes, static_cast<T*>(wanted.covariance.data) + row * axes * axes);
    if (wanted.argmax == nullptr && wanted.top_k == 0) continue;
    const std::vector<std::int64_t> keys = ranked_keys(head, i);
    if (wanted.argmax != nullptr) wanted.argmax[row] = keys.empty() ? -1 : keys[0];
    for (std::size_t n = 0; n < static_cast<std::size_t>(wanted.top_k); ++n) {
      const std::int64_t place = row * wanted.top_k + static_cast<std::int64_t>(n);
      const std::int64_t key = n < keys.size() ? keys[n] : -1;
      if (wanted.top_indices != nullptr) wanted.top_indices[place] = key;
      if (wanted.top_weights)
        static_cast<T*>(wanted.top_weights.data)[place] = key < 0 ? T(0) : head.weights.at(key, i);
    }
  }
}

template <class T>
void forward(const Problem& problem, const Outputs& outputs) {
  for (std::int64_t b = 0; b < problem.batch; ++b)
    for (std::int64_t h = 0; h < problem.heads; ++h) {
      const Head<T> head(problem, b, h);
      store_out(head, outputs);
      store_lse(head, outputs);
      store_partial(head, outputs);
      store_weights(head, outputs);
      store_saved(head, outputs);
      store_statistics(head, outputs.statistics);
    }
}

}  // namespace

void forward(const Problem& problem, const Outputs& outputs) {
  if (problem.is_double) forward<double>(problem, outputs);
  else forward<float>(problem, outputs);
}

}  // namespace reference
}  // namespace rapt::inline v1
