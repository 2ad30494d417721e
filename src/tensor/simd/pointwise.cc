#include <cmath>

#include "tensor/simd/entry.h"
#include "tensor/simd/functions.h"

// Element-wise operations.
namespace rapt::inline v1::RAPT_TARGET {
namespace {

template <class T>
RAPT_FN Vec<T> slope(Activation kind, Vec<T> x, Vec<T> y) {
  const Tag<T> tag;
  const Vec<T> one = hn::Set(tag, T(1));
  switch (kind) {
    case Activation::tanh: return hn::NegMulAdd(y, y, one);
    case Activation::sigmoid: return hn::Mul(y, hn::Sub(one, y));
    case Activation::relu: return hn::IfThenElseZero(hn::Gt(x, hn::Zero(tag)), one);
    case Activation::gelu: break;
  }
  const Vec<T> square = hn::Mul(x, x);
  const Vec<T> cubic = hn::MulAdd(hn::Mul(square, x), hn::Set(tag, T(kGeluCubic)), x);
  const Vec<T> gate = sigmoid<T>(hn::Mul(cubic, hn::Set(tag, T(2 * kGeluScale))));
  const Vec<T> inner =
      hn::MulAdd(square, hn::Set(tag, T(6 * kGeluScale * kGeluCubic)), hn::Set(tag, T(2 * kGeluScale)));
  return hn::MulAdd(hn::Mul(hn::Mul(x, gate), hn::Sub(one, gate)), inner, gate);
}

template <class T>
void activate(Activation kind, const T* x, T* y, std::int64_t count) {
  for_vectors<T>(count, [&](std::int64_t n, std::int64_t lanes) {
    store<T>(activated<T>(kind, load<T>(x + n, lanes)), y + n, lanes);
  });
}

template <class T>
void activate_backward(Activation kind, const T* x, const T* y, const T* dy, T* dx, std::int64_t count) {
  for_vectors<T>(count, [&](std::int64_t n, std::int64_t lanes) {
    const Vec<T> d = slope<T>(kind, load<T>(x + n, lanes), load<T>(y + n, lanes));
    store<T>(hn::MulAdd(load<T>(dy + n, lanes), d, load<T>(dx + n, lanes)), dx + n, lanes);
  });
}

template <class T>
void multiply_by_slope(Activation kind, const T* y, T* dy, std::int64_t count) {
  for_vectors<T>(count, [&](std::int64_t n, std::int64_t lanes) {
    const Vec<T> of_y = load<T>(y + n, lanes);
    store<T>(hn::Mul(load<T>(dy + n, lanes), slope<T>(kind, of_y, of_y)), dy + n, lanes);
  });
}

template <class T>
void add(const T* x, T* y, std::int64_t count) {
  for (std::int64_t n = 0; n < count; ++n) y[n] += x[n];
}

template <class T>
void add_scaled(T factor, const T* x, T* y, std::int64_t count) {
  for (std::int64_t n = 0; n < count; ++n) y[n] += factor * x[n];
}

RAPT_FN std::uint32_t mixed(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

template <class T>
void dropout(std::uint64_t key, T rate, const T* x, T* y, std::int64_t count, bool accumulate) {
  const auto low = static_cast<std::uint32_t>(key);
  const auto high = static_cast<std::uint32_t>(key >> 32);
  const auto limit = static_cast<std::uint32_t>(static_cast<double>(rate) * 4294967295.0);
  const T factor = T(1) / (T(1) - rate);
  if (accumulate) {
    for (std::int64_t n = 0; n < count; ++n) {
      const std::uint32_t hash = mixed(mixed(static_cast<std::uint32_t>(n) + low) ^ high);
      y[n] += hash >= limit ? x[n] * factor : T(0);
    }
  } else {
    for (std::int64_t n = 0; n < count; ++n) {
      const std::uint32_t hash = mixed(mixed(static_cast<std::uint32_t>(n) + low) ^ high);
      y[n] = hash >= limit ? x[n] * factor : T(0);
    }
  }
}

template <class T>
double sum_of_squares(const T* x, std::int64_t count) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  std::int64_t n = 0;
  for (; n + kSums <= count; n += kSums)
    for (int s = 0; s < kSums; ++s) sums[s] += static_cast<double>(x[n + s]) * static_cast<double>(x[n + s]);
  for (; n < count; ++n) sums[0] += static_cast<double>(x[n]) * static_cast<double>(x[n]);
  double total = 0;
  for (const double s : sums) total += s;
  return total;
}

template <class T>
void adam(const AdamArgs<T>& a) {
  const Tag<T> tag;
  const Vec<T> beta1 = hn::Set(tag, a.beta1);
  const Vec<T> beta2 = hn::Set(tag, a.beta2);
  const Vec<T> rest1 = hn::Set(tag, T(1) - a.beta1);
  const Vec<T> rest2 = hn::Set(tag, T(1) - a.beta2);
  const Vec<T> rate = hn::Set(tag, a.rate / a.correction1);
  const Vec<T> unbias = hn::Set(tag, T(1) / a.correction2);
  const Vec<T> keep = hn::Set(tag, T(1) - a.rate * a.decay);
  for_vectors<T>(a.count, [&](std::int64_t n, std::int64_t lanes) {
    const Vec<T> g = hn::Mul(load<T>(a.grad + n, lanes), hn::Set(tag, a.grad_scale));
    const Vec<T> mean = hn::MulAdd(beta1, load<T>(a.mean + n, lanes), hn::Mul(rest1, g));
    const Vec<T> square = hn::MulAdd(beta2, load<T>(a.square + n, lanes), hn::Mul(hn::Mul(rest2, g), g));
    const Vec<T> root = hn::Add(hn::Sqrt(hn::Mul(square, unbias)), hn::Set(tag, a.epsilon));
    const Vec<T> value = hn::Mul(load<T>(a.value + n, lanes), keep);
    store<T>(mean, a.mean + n, lanes);
    store<T>(square, a.square + n, lanes);
    store<T>(hn::Sub(value, hn::Div(hn::Mul(rate, mean), root)), a.value + n, lanes);
  });
}

}  // namespace

template <class T>
void fill_pointwise(TensorKernels<T>& kernels) {
  kernels.activate = activate<T>;
  kernels.activate_backward = activate_backward<T>;
  kernels.multiply_by_slope = multiply_by_slope<T>;
  kernels.add = add<T>;
  kernels.add_scaled = add_scaled<T>;
  kernels.dropout = dropout<T>;
  kernels.sum_of_squares = sum_of_squares<T>;
  kernels.adam = adam<T>;
}
template void fill_pointwise(TensorKernels<float>&);
template void fill_pointwise(TensorKernels<double>&);

}  // namespace rapt::inline v1::RAPT_TARGET
