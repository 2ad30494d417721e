#include "oracle/normalizers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace oracle {
namespace {

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

// All weight on the largest score, or shared by those that are +inf.
template <class T>
void share_infinity(Row<T>& row) {
  const T count = T(std::count(row.scores.begin(), row.scores.end(), kInfinity<T>));
  for (std::size_t j = 0; j < row.scores.size(); ++j)
    if (row.scores[j] == kInfinity<T>) row.weights[j] = T(1) / count;
  row.lse = kInfinity<T>;
}

template <class T>
void softmax(const Rule<T>& rule, Row<T>& row) {
  if (rule.sink) row.largest = std::max(row.largest, *rule.sink);
  const auto part = [&](T score) {
    if (row.largest == kInfinity<T>) return score == kInfinity<T> ? T(1) : T(0);
    return std::exp(score - row.largest);
  };
  for (std::size_t j = 0; j < row.scores.size(); ++j) {
    row.weights[j] = part(row.scores[j]);
    row.sum += row.weights[j];
  }
  if (rule.sink) {
    row.sink = part(*rule.sink);
    row.sum += row.sink;
  }
  for (T& w : row.weights) w /= row.sum;
  row.sink /= row.sum;
  row.slopes = row.weights;
  row.lse = row.largest + std::log(row.sum);
}

template <class T>
void argmax(Row<T>& row) {
  const auto first = std::find(row.scores.begin(), row.scores.end(), row.largest);
  row.weights[std::size_t(first - row.scores.begin())] = T(1);
  row.lse = row.largest;
}

// Scores less the largest one, largest first; those that are hidden come last.
template <class T>
std::vector<T> sorted(const Row<T>& row) {
  std::vector<T> z;
  for (T s : row.scores)
    if (s > -kInfinity<T>) z.push_back(s - row.largest);
  std::sort(z.begin(), z.end(), std::greater<T>());
  return z;
}

// The largest number of scores that all lie above the threshold which makes their weights sum to 1.
template <class T>
void sparsemax(Row<T>& row) {
  T sum(0), threshold(0);
  T count(0);
  for (T z : sorted(row)) {
    if (T(1) + (count + T(1)) * z <= sum + z) break;
    count += T(1);
    sum += z;
    threshold = (sum - T(1)) / count;
  }
  for (std::size_t j = 0; j < row.scores.size(); ++j) {
    row.weights[j] = std::max(row.scores[j] - row.largest - threshold, T(0));
    row.slopes[j] = row.weights[j] > T(0) ? T(1) : T(0);
  }
  row.lse = row.largest + threshold;
}

// With the n largest scores, Σ ((z−τ)/2)² = 1 is a quadratic equation: τ = mean − √((4 − Σ(z−mean)²)/n).
template <class T>
void entmax15(Row<T>& row) {
  T mean(0), squares(0), threshold(0);
  T count(0);
  for (T z : sorted(row)) {
    count += T(1);
    const T before = z - mean;
    mean += before / count;
    squares += before * (z - mean);
    const T inside = (T(4) - squares) / count;
    if (inside < T(0)) break;
    const T candidate = mean - std::sqrt(inside);
    if (candidate > z) break;
    threshold = candidate;
  }
  for (std::size_t j = 0; j < row.scores.size(); ++j) {
    row.slopes[j] = std::max((row.scores[j] - row.largest - threshold) / T(2), T(0));
    row.weights[j] = row.slopes[j] * row.slopes[j];
  }
  row.lse = row.largest + threshold;
}

template <class T>
void sigmoid(const Rule<T>& rule, Row<T>& row) {
  T sum(0);
  for (std::size_t j = 0; j < row.scores.size(); ++j) {
    const T w = T(1) / (T(1) + std::exp(-(row.scores[j] + rule.b)));
    row.weights[j] = w;
    row.slopes[j] = w / (T(1) + std::exp(row.scores[j] + rule.b));
    sum += w;
  }
  row.lse = std::log(sum);
}

}  // namespace

template <class T>
void normalize(const Rule<T>& rule, Row<T>& row) {
  const std::size_t n = row.scores.size();
  row.weights.assign(n, T(0));
  row.slopes.assign(n, T(0));
  bool has_nan = false;
  for (T s : row.scores) {
    has_nan = has_nan || std::isnan(s);
    row.largest = std::max(row.largest, s);
  }
  // A row that sees only the sink sees nothing.
  if (row.largest == -kInfinity<T> && !has_nan) return;
  has_nan = has_nan || (rule.sink && std::isnan(*rule.sink));
  if (has_nan && rule.normalizer != Normalizer::sigmoid) {
    const T nan = std::numeric_limits<T>::quiet_NaN();
    row.weights.assign(n, nan);
    row.slopes.assign(n, nan);
    row.lse = row.largest = row.sum = nan;
    return;
  }
  switch (rule.normalizer) {
    case Normalizer::softmax: softmax(rule, row); break;
    case Normalizer::argmax: argmax(row); break;
    case Normalizer::sparsemax: row.largest == kInfinity<T> ? share_infinity(row) : sparsemax(row); break;
    case Normalizer::entmax15: row.largest == kInfinity<T> ? share_infinity(row) : entmax15(row); break;
    case Normalizer::sigmoid: sigmoid(rule, row); break;
  }
}

template <class T>
RowGradient<T> reverse_row(const Rule<T>& rule, const Row<T>& row, const std::vector<T>& d_weights, T d_lse,
                           std::optional<T> mean, Terms terms) {
  const std::size_t n = row.scores.size();
  const T minus = terms == Terms::sizes ? T(1) : T(-1);
  RowGradient<T> g;
  g.scores.assign(n, T(0));
  if (rule.normalizer == Normalizer::argmax) return g;
  if (rule.normalizer == Normalizer::sigmoid) {
    for (std::size_t j = 0; j < n; ++j) {
      if (row.slopes[j] == T(0)) continue;
      g.scores[j] = row.slopes[j] * d_weights[j];
      g.parameter += g.scores[j];
    }
    return g;
  }
  T moved(0), slopes(0);
  for (std::size_t j = 0; j < n; ++j) {
    if (row.slopes[j] == T(0)) continue;
    moved += row.slopes[j] * d_weights[j];
    slopes += row.slopes[j];
  }
  const bool soft = rule.normalizer == Normalizer::softmax;
  // Under softmax the slopes are the weights; with the sink's, which has no value, they sum to 1.
  const T average = soft ? mean.value_or(moved) : moved / slopes;
  for (std::size_t j = 0; j < n; ++j)
    if (row.slopes[j] != T(0)) g.scores[j] = row.slopes[j] * (d_weights[j] + minus * average + d_lse);
  if (row.sink != T(0)) g.parameter = row.sink * (minus * average + d_lse);
  return g;
}

template void normalize<float>(const Rule<float>&, Row<float>&);
template void normalize<double>(const Rule<double>&, Row<double>&);
template RowGradient<float> reverse_row<float>(const Rule<float>&, const Row<float>&, const std::vector<float>&, float,
                                               std::optional<float>, Terms);
template RowGradient<double> reverse_row<double>(const Rule<double>&, const Row<double>&, const std::vector<double>&,
                                                 double, std::optional<double>, Terms);

}  // namespace oracle
