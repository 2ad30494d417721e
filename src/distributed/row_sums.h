#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "distributed/work.h"

// One row of a softmax that grows by parts of the keys; T is the compute type.
namespace rapt::inline v1::distributed {

// The factors of a merge: total·own + part·others.
template <class T>
struct Shares {
  T own, others;
};

// The row with a part's maximum and sum, which is not 0.
template <class T>
Shares<T> merge_row(T& max, T& sum, double part_max, double part_sum) {
  // One of the two differences is 0.
  const auto power = [](double x) { return x == 0 ? 1.0 : std::exp(x); };
  const double top = sum == 0 ? part_max : std::max<double>(max, part_max);
  const double own = sum == 0 ? 0 : power(max - top);
  const double others = part_sum * power(part_max - top);
  max = static_cast<T>(top);
  sum = static_cast<T>(sum * own + others);
  return {static_cast<T>(own), static_cast<T>(others)};
}

// A factor of 0 adds nothing: a vanished weight hides an infinity.
template <class T>
void merge_numbers(T* __restrict total, const T* __restrict part, std::int64_t dim, const Shares<T>& shares) {
  const T a = shares.own, c = shares.others;
  if (a == T(0)) std::fill_n(total, dim, T(0));
  else if (a != T(1)) for_each_number(dim, [&](std::int64_t d) { total[d] *= a; });
  if (c != T(0)) for_each_number(dim, [&](std::int64_t d) { total[d] += c * part[d]; });
}

// Adds the sink, if the row sees a key at all; returns the row's final factor.
template <class T>
T finish_row(T& max, T& sum, bool has_sink, double logit) {
  double shrink = 1;
  // A row that sees nothing has no weight to share with its sink.
  if (has_sink && sum != T(0)) {
    const double top = std::max<double>(max, logit);
    shrink = std::exp(max - top);
    sum = static_cast<T>(sum * shrink + std::exp(logit - top));
    max = static_cast<T>(top);
  }
  return static_cast<T>(sum == T(0) ? 0 : shrink / sum);
}

}  // namespace rapt::inline v1::distributed
