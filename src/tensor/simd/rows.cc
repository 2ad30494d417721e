#include <cmath>
#include <limits>

#include "tensor/simd/entry.h"
#include "tensor/simd/functions.h"

// Operations on whole rows: normalisation, softmax and the loss.
namespace rapt::inline v1::RAPT_TARGET {
namespace {

// Elements past the end of a row count as `fill`.
template <class T>
RAPT_FN Vec<T> load_or(const T* p, std::int64_t lanes, T fill) {
  const Tag<T> tag;
  if (lanes == kWide<T>) return hn::LoadU(tag, p);
  T buffer[kWide<T>];
  for (std::int64_t n = 0; n < kWide<T>; ++n) buffer[n] = n < lanes ? p[n] : fill;
  return hn::LoadU(tag, buffer);
}

template <class T, class F>
RAPT_FN T sum_over(std::int64_t width, F&& f) {
  const Tag<T> tag;
  Vec<T> sum = hn::Zero(tag);
  for_vectors<T>(width, [&](std::int64_t n, std::int64_t lanes) { sum = hn::Add(sum, f(n, lanes)); });
  return hn::GetLane(hn::SumOfLanes(tag, sum));
}

template <class T>
void layer_norm(const T* x, const T* gain, const T* bias, T* y, std::int64_t width, T epsilon, T* mean, T* inverse) {
  const Tag<T> tag;
  const T average = sum_over<T>(width, [&](std::int64_t n, std::int64_t lanes) { return load<T>(x + n, lanes); }) /
                    static_cast<T>(width);
  const Vec<T> m = hn::Set(tag, average);
  const T variance = sum_over<T>(width,
                                 [&](std::int64_t n, std::int64_t lanes) {
                                   const Vec<T> d = hn::Sub(load_or<T>(x + n, lanes, average), m);
                                   return hn::Mul(d, d);
                                 }) /
                     static_cast<T>(width);
  *mean = average;
  *inverse = T(1) / std::sqrt(variance + epsilon);
  const Vec<T> scale = hn::Set(tag, *inverse);
  for_vectors<T>(width, [&](std::int64_t n, std::int64_t lanes) {
    const Vec<T> unit = hn::Mul(hn::Sub(load<T>(x + n, lanes), m), scale);
    store<T>(hn::MulAdd(unit, load<T>(gain + n, lanes), load<T>(bias + n, lanes)), y + n, lanes);
  });
}

template <class T>
void layer_norm_backward(const T* x, const T* gain, const T* dy, T mean, T inverse, std::int64_t width, T* dx, T* dgain,
                         T* dbias) {
  const Tag<T> tag;
  const Vec<T> m = hn::Set(tag, mean);
  const Vec<T> scale = hn::Set(tag, inverse);
  const auto unit_at = [&](std::int64_t n, std::int64_t lanes) {
    return hn::Mul(hn::Sub(load_or<T>(x + n, lanes, mean), m), scale);
  };
  Vec<T> sum = hn::Zero(tag);
  Vec<T> along = hn::Zero(tag);
  for_vectors<T>(width, [&](std::int64_t n, std::int64_t lanes) {
    const Vec<T> d = load<T>(dy + n, lanes);
    const Vec<T> unit = unit_at(n, lanes);
    const Vec<T> of_unit = hn::Mul(d, load<T>(gain + n, lanes));
    sum = hn::Add(sum, of_unit);
    along = hn::MulAdd(of_unit, unit, along);
    if (dgain) store<T>(hn::MulAdd(d, unit, load<T>(dgain + n, lanes)), dgain + n, lanes);
    if (dbias) store<T>(hn::Add(d, load<T>(dbias + n, lanes)), dbias + n, lanes);
  });
  if (!dx) return;
  const T over = T(1) / static_cast<T>(width);
  const Vec<T> mean_d = hn::Set(tag, hn::GetLane(hn::SumOfLanes(tag, sum)) * over);
  const Vec<T> mean_along = hn::Set(tag, hn::GetLane(hn::SumOfLanes(tag, along)) * over);
  for_vectors<T>(width, [&](std::int64_t n, std::int64_t lanes) {
    const Vec<T> of_unit = hn::Mul(load<T>(dy + n, lanes), load<T>(gain + n, lanes));
    const Vec<T> rest = hn::Sub(of_unit, hn::MulAdd(unit_at(n, lanes), mean_along, mean_d));
    store<T>(hn::MulAdd(rest, scale, load<T>(dx + n, lanes)), dx + n, lanes);
  });
}

template <class T>
std::int64_t place_of_largest(const T* x, std::int64_t width) {
  const Tag<T> tag;
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  Vec<T> top = hn::Set(tag, kLowest);
  for_vectors<T>(width,
                 [&](std::int64_t n, std::int64_t lanes) { top = hn::Max(load_or<T>(x + n, lanes, kLowest), top); });
  const T largest = hn::GetLane(hn::MaxOfLanes(tag, top));
  for (std::int64_t n = 0; n < width; ++n)
    if (x[n] == largest) return n;
  return 0;
}

template <class T>
T sum_of_powers(const T* x, std::int64_t width, T largest) {
  const Vec<T> shift = hn::Set(Tag<T>(), largest);
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  return sum_over<T>(width, [&](std::int64_t n, std::int64_t lanes) {
    const Vec<T> e = exp_any(hn::Sub(load_or<T>(x + n, lanes, kLowest), shift));
    // The exponential of −∞ is a tiny number here, not 0.
    return hn::IfThenElseZero(hn::FirstN(Tag<T>(), static_cast<std::size_t>(lanes)), e);
  });
}

template <class T>
double cross_entropy(const T* logits, std::int64_t width, std::int64_t target, T smoothing, T scale, T* grad,
                     std::int64_t* best) {
  const Tag<T> tag;
  *best = place_of_largest(logits, width);
  const T largest = logits[*best];
  const T sum = sum_of_powers(logits, width, largest);
  const double log_sum = static_cast<double>(largest) + std::log(static_cast<double>(sum));
  double loss = log_sum - static_cast<double>(logits[target]);
  const T share = smoothing / static_cast<T>(width);
  if (smoothing > T(0)) {
    const T total = sum_over<T>(width, [&](std::int64_t n, std::int64_t lanes) { return load<T>(logits + n, lanes); });
    loss = static_cast<double>(T(1) - smoothing) * loss +
           static_cast<double>(smoothing) * (log_sum - static_cast<double>(total) / static_cast<double>(width));
  }
  if (grad) {
    const Vec<T> shift = hn::Set(tag, largest);
    const Vec<T> over = hn::Set(tag, T(1) / sum);
    const Vec<T> factor = hn::Set(tag, scale);
    for_vectors<T>(width, [&](std::int64_t n, std::int64_t lanes) {
      const Vec<T> p = hn::Mul(exp_any(hn::Sub(load<T>(logits + n, lanes), shift)), over);
      const Vec<T> d = hn::Sub(p, hn::Set(tag, share));
      store<T>(hn::MulAdd(d, factor, load<T>(grad + n, lanes)), grad + n, lanes);
    });
    grad[target] -= scale * (T(1) - smoothing);
  }
  return loss;
}

template <class T>
std::int64_t log_softmax(T* x, std::int64_t width) {
  const std::int64_t best = place_of_largest(x, width);
  const T largest = x[best];
  const T log_sum = largest + static_cast<T>(std::log(static_cast<double>(sum_of_powers(x, width, largest))));
  for (std::int64_t n = 0; n < width; ++n) x[n] -= log_sum;
  return best;
}

}  // namespace

template <class T>
void fill_rows(TensorKernels<T>& kernels) {
  kernels.layer_norm = layer_norm<T>;
  kernels.layer_norm_backward = layer_norm_backward<T>;
  kernels.cross_entropy = cross_entropy<T>;
  kernels.log_softmax = log_softmax<T>;
}
template void fill_rows(TensorKernels<float>&);
template void fill_rows(TensorKernels<double>&);

}  // namespace rapt::inline v1::RAPT_TARGET
