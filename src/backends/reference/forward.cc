#include "backends/reference/head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/parallel.h"
#include "attend/storage.h"

namespace rapt {
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

template <class T>
void store_out(const Head<T>& head, const Outputs& outputs) {
  const Problem& p = head.problem;
  for (std::size_t set = 0; set < p.v.size() && set < outputs.out.size(); ++set) {
    if (!outputs.out[set]) continue;
    const Matrix<T> v = load_matrix<T>(p.v[set].at(head.batch, head.head), p.keys, p.v[set].dim);
    const Matrix<T> out = mix(head.weights, v);
    const MatrixRef target = matrix_of(outputs.out[set], head.batch, head.head);
    for (std::int64_t i = 0; i < p.queries; ++i) store_row(out.row(i), out.cols, target, i);
  }
}

template <class T>
void store_lse(const Head<T>& head, const Outputs& outputs) {
  if (!outputs.lse) return;
  const MatrixRef target = matrix_of(outputs.lse, head.batch, head.head);
  for (std::int64_t i = 0; i < head.problem.queries; ++i) {
    // With nothing visible the maximum is −∞ and the sum 0. Under argmax the sum is 1.
    const auto n = static_cast<std::size_t>(i);
    const T lse = head.row_sum[n] == T(0) ? head.row_max[n] : head.row_max[n] + std::log(head.row_sum[n]);
    store_row(&lse, 1, target, i);
  }
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

// Under argmax the tiled path keeps the chosen key in place of the sum, −1 for none: its backward pass reads that.
template <class T>
std::vector<T> chosen_keys(const Head<T>& head) {
  std::vector<T> chosen(static_cast<std::size_t>(head.problem.queries), T(-1));
  for (std::int64_t j = head.problem.keys - 1; j >= 0; --j)
    for (std::int64_t i = 0; i < head.problem.queries; ++i) {
      const T w = head.weights.at(j, i);
      if (w != T(0)) chosen[static_cast<std::size_t>(i)] = std::isnan(w) ? w : static_cast<T>(j);
    }
  return chosen;
}

template <class T>
void store_saved(const Head<T>& head, const Outputs& outputs) {
  if (outputs.saved == nullptr) return;
  const std::int64_t first = (head.batch * head.problem.heads + head.head) * head.problem.queries;
  const std::vector<T> sum = head.problem.normalizer == Normalizer::argmax ? chosen_keys(head) : head.row_sum;
  std::copy(head.row_max.begin(), head.row_max.end(), outputs.saved->rows()->template max<T>() + first);
  std::copy(sum.begin(), sum.end(), outputs.saved->rows()->template sum<T>() + first);
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

template <class T>
T entropy(const Head<T>& head, std::int64_t i) {
  T sum = 0;
  for (std::int64_t j = 0; j < head.problem.keys; ++j) {
    const T w = head.weights.at(j, i);
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
  for (std::int64_t j = 0; j < head.problem.keys; ++j)
    for (int a = 0; a < axes; ++a) mean[a] += head.weights.at(j, i) * coordinate(j, a);
  for (std::int64_t j = 0; j < head.problem.keys; ++j) {
    const T w = head.weights.at(j, i);
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
  if (outputs.saved != nullptr)
    outputs.saved->rows()->resize(problem.batch * problem.heads * problem.queries, problem.is_double);
  parallel_for(problem.batch * problem.heads, problem.threads, [&](std::int64_t n, int) {
    const Head<T> head(problem, n / problem.heads, n % problem.heads);
    store_out(head, outputs);
    store_lse(head, outputs);
    store_weights(head, outputs);
    store_saved(head, outputs);
    store_statistics(head, outputs.statistics);
  });
}

}  // namespace
}  // namespace reference

void reference_forward(const Problem& problem, const Outputs& outputs) {
  if (problem.is_double) reference::forward<double>(problem, outputs);
  else reference::forward<float>(problem, outputs);
}

}  // namespace rapt
