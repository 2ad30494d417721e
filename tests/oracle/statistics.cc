#include <algorithm>
#include <cmath>

#include "oracle/oracle.h"

namespace oracle {
namespace {

// T is double, or float for the naive evaluation that errors are measured against.
template <class T>
Statistics statistics_in(const Forward& f, Normalizer normalizer, int top_k, std::array<Int, 2> grid) {
  const Sizes& shape = f.weights.shape;
  const Int rows = shape[0] * shape[1] * shape[2], keys = shape[3];
  const bool on_grid = grid[0] > 0;
  const Int axes = on_grid ? 2 : 1;
  Statistics s;
  s.entropy = Array({shape[0], shape[1], shape[2], 1});
  s.position = Array({shape[0], shape[1], shape[2], axes});
  s.covariance = Array({shape[0], shape[1], shape[2], axes * axes});
  s.top_weights = Array({shape[0], shape[1], shape[2], std::max(top_k, 1)});
  s.top_indices.assign(std::size_t(rows * std::max(top_k, 1)), -1);
  s.argmax.assign(std::size_t(rows), -1);
  const auto coordinate = [&](Int j, Int axis) {
    if (!on_grid) return T(j);
    return T(axis == 0 ? j / grid[1] : j % grid[1]);
  };
  for (Int r = 0; r < rows; ++r) {
    const double* w = f.weights.data.data() + r * keys;
    const double* score = f.scores.data.data() + r * keys;
    std::vector<Int> order;
    for (Int j = 0; j < keys; ++j)
      if (score[j] > -HUGE_VAL) order.push_back(j);
    if (order.empty()) continue;
    const auto first = order.begin() + std::min<std::ptrdiff_t>(std::max(top_k, 1), std::ssize(order));
    std::partial_sort(order.begin(), first, order.end(),
                      [&](Int a, Int b) { return score[a] > score[b] || (score[a] == score[b] && a < b); });
    s.argmax[std::size_t(r)] = order[0];
    for (int t = 0; t < top_k && t < static_cast<int>(order.size()); ++t) {
      s.top_indices[std::size_t(r * top_k + t)] = order[std::size_t(t)];
      s.top_weights.data[std::size_t(r * top_k + t)] = w[order[std::size_t(t)]];
    }
    T sum = 0;
    for (Int j = 0; j < keys; ++j) sum += T(w[j]);
    if (sum == 0) continue;
    const T divisor = normalizer == Normalizer::sigmoid ? sum : T(1);
    T entropy = 0, mean[2] = {}, covariance[4] = {};
    for (Int j = 0; j < keys; ++j) {
      const T p = T(w[j]) / divisor;
      if (p > 0) entropy -= p * std::log(p);
      for (Int a = 0; a < axes; ++a) mean[a] += T(w[j]) / sum * coordinate(j, a);
    }
    for (Int j = 0; j < keys; ++j)
      for (Int a = 0; a < axes; ++a)
        for (Int b = 0; b < axes; ++b)
          covariance[a * axes + b] += T(w[j]) / sum * (coordinate(j, a) - mean[a]) * (coordinate(j, b) - mean[b]);
    s.entropy.data[std::size_t(r)] = double(entropy);
    for (Int a = 0; a < axes; ++a) s.position.data[std::size_t(r * axes + a)] = double(mean[a]);
    for (Int a = 0; a < axes * axes; ++a) s.covariance.data[std::size_t(r * axes * axes + a)] = double(covariance[a]);
  }
  return s;
}

}  // namespace

Statistics statistics(const Forward& f, Normalizer normalizer, int top_k, std::array<Int, 2> grid,
                      Precision precision) {
  if (precision == Precision::exact) return statistics_in<double>(f, normalizer, top_k, grid);
  return statistics_in<float>(f, normalizer, top_k, grid);
}

}  // namespace oracle
