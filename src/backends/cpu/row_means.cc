#include "backends/cpu/row_means.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/parallel.h"
#include "backends/host/host_parameters.h"
#include "backends/host/storage.h"

namespace rapt::inline v1 {

template <class T>
RowMeans<T>::RowMeans(const Problem& problem, const Kernels<T>& kernels, const BackwardRequest& request,
                      Saved::Rows& rows)
    : p_(problem), kernels_(kernels), request_(request), rows_(rows) {}

template <class T>
void RowMeans<T>::prepare() {
  const std::int64_t rows = p_.batch * p_.heads * p_.queries;
  delta_ = Buffer(static_cast<std::size_t>(rows) * sizeof(T));
  has_products_ = p_.normalizer->threshold == Threshold::exponential;
  // Gradients of some of a row's keys have no sum that is known beforehand.
  adds_sums_ = has_products_ && !rows_.of_more_keys;
  if (adds_sums_) sums_ = Buffer(static_cast<std::size_t>(2 * rows) * sizeof(double));
  std::int64_t widest = 1;
  for (const Operand& v : p_.v) widest = std::max(widest, v.dim);
  constexpr std::int64_t kRows = 64;
  const std::int64_t blocks = (p_.queries + kRows - 1) / kRows;
  const std::int64_t buffer_size = 2 * (widest + kernels_.pad);
  const Buffer buffers(static_cast<std::size_t>(buffer_size * p_.threads) * sizeof(T));
  parallel_for(p_.batch * p_.heads * blocks, p_.threads, [&](std::int64_t n, int worker) {
    const std::int64_t first = n % blocks * kRows;
    prepare_rows(n / blocks, first, std::min(kRows, p_.queries - first),
                 buffers.template as<T>() + worker * buffer_size);
  });
}

// Σ out∘grad_out, over all value sets, less ∂lse.
template <class T>
void RowMeans<T>::prepare_rows(std::int64_t n, std::int64_t first, std::int64_t rows, T* buffer) {
  const std::int64_t b = n / p_.heads, h = n % p_.heads, row = n * p_.queries + first;
  T* const delta = delta_.template as<T>() + row;
  std::fill_n(delta, rows, T(0));
  if (adds_sums_) {
    std::fill_n(score_sums(n) + first, rows, 0.0);
    std::fill_n(score_sizes(n) + first, rows, 0.0);
  }
  if (!has_products_) return;
  if (!rows_.means.empty()) {
    for (std::int64_t i = 0; i < rows; ++i) delta[i] = static_cast<T>(rows_.means[static_cast<std::size_t>(row + i)]);
    return;
  }
  for (std::size_t s = 0; s < p_.v.size(); ++s)
    kernels_.row_products(request_.out[s].at(b, h), request_.grad_out[s].at(b, h), first, rows, p_.v[s].dim,
                          rows_.sum<T>() + row, buffer, delta);
  for (std::int64_t i = 0; i < rows && request_.grad_lse; ++i) {
    T grad = 0;
    load_row(request_.grad_lse.at(b, h), first + i, 1, &grad);
    delta[i] -= grad;
  }
}

template <class T>
void RowMeans<T>::add_slope_means(const std::vector<Head<T>>& wave, const HeadTask<T>& prototype) {
  rest_.resize(static_cast<std::size_t>(p_.batch * p_.heads * p_.queries));
  if (!rows_.means.empty()) return use_means();
  const std::int64_t blocks = (p_.queries + kernels_.forward_rows - 1) / kernels_.forward_rows;
  const auto count = static_cast<std::int64_t>(wave.size());
  SlopeMeansTask<T> sample;
  sample.head = &prototype;
  sample.count = std::min<std::int64_t>(kernels_.forward_rows, p_.queries);
  const std::size_t bytes = kernels_.slope_means_workspace(sample);
  const int workers = static_cast<int>(std::min<std::int64_t>(p_.threads, count * blocks));
  std::vector<Buffer> workspaces;
  for (int t = 0; t < workers; ++t) workspaces.emplace_back(bytes);
  parallel_for(count * blocks, workers, [&](std::int64_t n, int worker) {
    const Head<T>& head = wave[static_cast<std::size_t>(n / blocks)];
    const std::int64_t row = (head.b * p_.heads + head.h) * p_.queries;
    std::vector<MatrixRef> grad_out;
    for (const Operand& g : request_.grad_out) grad_out.push_back(g.at(head.b, head.h));
    SlopeMeansTask<T> task;
    task.head = &head.task;
    task.first_query = n % blocks * kernels_.forward_rows;
    task.count = std::min<std::int64_t>(kernels_.forward_rows, p_.queries - task.first_query);
    task.grad_out = grad_out.data();
    task.row_max = rows_.max<T>() + row;
    task.row_sum = rows_.sum<T>() + row;
    task.delta = delta_.template as<T>() + row;
    task.delta_rest = rest_.data() + row;
    task.workspace = workspaces[static_cast<std::size_t>(worker)].template as<char>();
    kernels_.slope_means(task);
  });
}

// Those of rows that have more keys than the call.
template <class T>
void RowMeans<T>::use_means() {
  for (std::size_t n = 0; n < rest_.size(); ++n) {
    const T first = static_cast<T>(rows_.means[n]);
    const double rest = rows_.means[n] - static_cast<double>(first);
    delta_.template as<T>()[n] = first;
    rest_[n] = rest == rest ? static_cast<T>(rest) : T(0);
  }
}

template <class T>
std::vector<double> RowMeans<T>::all() const {
  std::vector<double> means(static_cast<std::size_t>(p_.batch * p_.heads * p_.queries));
  for (std::size_t n = 0; n < means.size(); ++n)
    means[n] = static_cast<double>(delta_.template as<T>()[n]) + (rest_.empty() ? 0 : static_cast<double>(rest_[n]));
  return means;
}

// With w the sink's weight and μ = δ − ∂lse: the gradients of a row's scores sum to w·μ + ∂lse.
template <class T>
double RowMeans<T>::missing(std::int64_t n, std::int64_t i) const {
  const std::int64_t row = n * p_.queries + i;
  const T total = rows_.sum<T>()[row];
  if (total == T(0)) return 0;
  double expected = 0;
  if (const ParameterValue& sink = p_.normalizer_parameters[0]; sink.given)
    expected = std::exp(static_cast<double>(sink.template head<T>(n % p_.heads)[0]) -
                        static_cast<double>(rows_.max<T>()[row])) /
               static_cast<double>(total) * static_cast<double>(of_head(n)[i]);
  if (request_.grad_lse) {
    T grad = 0;
    load_row(request_.grad_lse.at(n / p_.heads, n % p_.heads), i, 1, &grad);
    expected += static_cast<double>(grad);
  }
  const double x = score_sums(n)[i] - expected;
  return std::isfinite(x) ? x : 0;
}

// How much larger a head's scores are than what tells the keys of a row apart, both of which its maxima and sums tell: what is
// common to all keys multiplies the error of a row's sum, what tells them apart has errors of that size of its own.
template <class T>
double RowMeans<T>::common_part(const HeadTask<T>& head) const {
  constexpr int kRows = 64;
  std::int64_t begin[kRows], end[kRows];
  const std::int64_t first_row = (head.b * p_.heads + head.h) * p_.queries;
  double size = 0, apart = 0;
  for (std::int64_t first = 0; first < p_.queries; first += kRows) {
    const int count = static_cast<int>(std::min<std::int64_t>(kRows, p_.queries - first));
    head.visibility->ranges(head.b, first, count, begin, end);
    for (int n = 0; n < count; ++n) {
      const auto row = static_cast<std::size_t>(first_row + first + n);
      const auto max = static_cast<double>(rows_.max<T>()[row]), sum = static_cast<double>(rows_.sum<T>()[row]);
      // The largest score less the logarithm of the mean exponential.
      const double gap = std::log(static_cast<double>(end[n] - begin[n]) / sum);
      if (begin[n] >= end[n] || !std::isfinite(max) || !std::isfinite(gap)) continue;
      size += std::abs(max);
      apart += std::max(0.0, gap);
    }
  }
  return apart > 0 ? std::max(0.0, size / apart - 1) : 1;
}

template <class T>
auto RowMeans<T>::find_bound(const HeadTask<T>& head, std::int64_t n, double rounding, bool strict) const -> Bound {
  // The rounding error of the row with the largest gradients; no other row needs to be better.
  const double* const sizes = score_sizes(n);
  double most = 0, largest = 0;
  for (std::int64_t i = 0; i < p_.queries; ++i) {
    if (std::isfinite(sizes[i])) most = std::max(most, sizes[i]);
    largest = std::max(largest, std::abs(missing(n, i)));
  }
  double allowed = 0.5 * rounding * most;
  if (!(largest > allowed)) return {};
  // It takes a logarithm of every row, and only allows more.
  if (!strict) {
    const double common = 1 + 2 * common_part(head);
    double more = 8 / common;
    // Gradients that are rounded to bf16 do not sum to 0 whatever δ is: where keys have little in common, that is as much.
    if (rounding == kPairRounding) more = std::max(more, 16 / (common * common));
    allowed *= std::max(1.0, more);
  }
  return {allowed, largest > allowed};
}

template <class T>
bool RowMeans<T>::find_corrections(const std::vector<Head<T>>& wave, std::int64_t first, std::int64_t block_rows,
                                   double rounding, bool strict) {
  if (!adds_sums_) return false;
  const auto count = static_cast<std::int64_t>(wave.size());
  std::vector<Bound> bounds(wave.size());
  parallel_for(count, p_.threads, [&](std::int64_t n, int) {
    const auto at = static_cast<std::size_t>(n);
    bounds[at] = find_bound(wave[at].task, first + n, rounding, strict);
  });
  if (std::ranges::none_of(bounds, [](const Bound& bound) { return bound.exceeded; })) return false;
  const std::int64_t blocks = (p_.queries + block_rows - 1) / block_rows;
  if (corrections_.empty()) {
    corrections_.assign(static_cast<std::size_t>(p_.batch * p_.heads * p_.queries), T(0));
    marks_.assign(static_cast<std::size_t>(p_.batch * p_.heads * blocks), 0);
    rest_.assign(corrections_.size(), T(0));
  }
  parallel_for(count, p_.threads, [&](std::int64_t at, int) {
    const Bound& bound = bounds[static_cast<std::size_t>(at)];
    const std::int64_t n = first + at;
    for (std::int64_t i = 0; i < p_.queries && bound.exceeded; ++i) {
      const double x = missing(n, i);
      if (!(std::abs(x) > bound.allowed)) continue;
      marks_[static_cast<std::size_t>(n * blocks + i / block_rows)] = 1;
      const auto row = static_cast<std::size_t>(n * p_.queries + i);
      corrections_[row] = static_cast<T>(x);
      T& delta = delta_.template as<T>()[row];
      const double whole = static_cast<double>(delta) + x;
      delta = static_cast<T>(whole);
      rest_[row] = static_cast<T>(whole - static_cast<double>(delta));
    }
  });
  return true;
}

template class RowMeans<float>;
template class RowMeans<double>;

}  // namespace rapt::inline v1
