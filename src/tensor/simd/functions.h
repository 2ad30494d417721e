#pragma once

#include "backends/cpu/simd/lane.h"
#include "tensor/simd/table.h"

// Exponentials and activations as training needs them: accurate to a few units in the last place, on whole vectors.
namespace rapt::inline v1::RAPT_TARGET {

template <class T>
inline constexpr std::int64_t kWide = Lanes<Lane<T>>::count;

RAPT_FN Vec<float> exp_any(Vec<float> x) {
  const Tag<float> tag;
  const Vec<float> safe = hn::Min(hn::Max(x, hn::Set(tag, -87.3F)), hn::Set(tag, 88.3F));
  return hn::IfThenElse(hn::Eq(x, x), exp_within(safe), x);
}
// Highway's exponential wraps around past the largest number.
RAPT_FN Vec<double> exp_any(Vec<double> x) {
  const Vec<double> most = hn::Set(Tag<double>(), 709.0);
  return exp(Lane<double>(hn::IfThenElse(hn::Gt(x, most), most, x))).v;
}

template <class T>
RAPT_FN Vec<T> sigmoid(Vec<T> x) {
  const Tag<T> tag;
  const Vec<T> one = hn::Set(tag, T(1));
  return hn::Div(one, hn::Add(one, exp_any(hn::Neg(x))));
}
template <class T>
RAPT_FN Vec<T> tanh_of(Vec<T> x) {
  return tanh(Lane<T>(x)).v;
}

inline constexpr double kGeluScale = 0.7978845608028654;  // √(2/π)
inline constexpr double kGeluCubic = 0.044715;

template <class T>
RAPT_FN Vec<T> activated(Activation kind, Vec<T> x) {
  const Tag<T> tag;
  switch (kind) {
    case Activation::tanh: return tanh_of<T>(x);
    case Activation::sigmoid: return sigmoid<T>(x);
    case Activation::relu: return hn::Max(x, hn::Zero(tag));
    case Activation::gelu: break;
  }
  // ½x(1 + tanh(√(2/π)(x + c·x³))) = x·sigmoid(2·…)
  const Vec<T> cubic = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(tag, T(kGeluCubic)), x);
  return hn::Mul(x, sigmoid<T>(hn::Mul(cubic, hn::Set(tag, T(2 * kGeluScale)))));
}

// Calls f(index, lanes) for whole vectors and then for the rest.
template <class T, class F>
RAPT_FN void for_vectors(std::int64_t count, F&& f) {
  std::int64_t n = 0;
  for (; n + kWide<T> <= count; n += kWide<T>) f(n, kWide<T>);
  if (n < count) f(n, count - n);
}

// The tail of a row goes through a buffer: nothing outside the row is touched.
template <class T>
RAPT_FN Vec<T> load(const T* p, std::int64_t lanes) {
  const Tag<T> tag;
  if (lanes == kWide<T>) return hn::LoadU(tag, p);
  T buffer[kWide<T>] = {};
  for (std::int64_t n = 0; n < lanes; ++n) buffer[n] = p[n];
  return hn::LoadU(tag, buffer);
}
template <class T>
RAPT_FN void store(Vec<T> v, T* p, std::int64_t lanes) {
  const Tag<T> tag;
  if (lanes == kWide<T>) {
    hn::StoreU(v, tag, p);
    return;
  }
  T buffer[kWide<T>];
  hn::StoreU(v, tag, buffer);
  for (std::int64_t n = 0; n < lanes; ++n) p[n] = buffer[n];
}

}  // namespace rapt::inline v1::RAPT_TARGET
