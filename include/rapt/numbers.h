#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

// What hooks may call on numbers. The same names exist for dual numbers and for SIMD vectors, found by their types,
// so that one formula serves all of them.
#if defined(__CUDACC__)
#define RAPT_FN __host__ __device__ __forceinline__
#else
#define RAPT_FN inline __attribute__((always_inline))
#endif

namespace rapt::inline v1 {

template <class T> concept PlainNumber = std::is_same_v<T, float> || std::is_same_v<T, double>;

template <PlainNumber T>
RAPT_FN constexpr T abs(T x) {
  return x < T(0) ? -x : x;
}
template <PlainNumber T>
RAPT_FN constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <PlainNumber T>
RAPT_FN constexpr T max(T a, T b) {
  return a < b ? b : a;
}
template <PlainNumber T>
RAPT_FN T sqrt(T x) {
  return std::sqrt(x);
}
template <PlainNumber T>
RAPT_FN T reciprocal(T x) {
  return T(1) / x;
}
template <PlainNumber T>
RAPT_FN T mul_add(T a, T b, T c) {
  return a * b + c;
}
template <PlainNumber T>
RAPT_FN T exp(T x) {
  return std::exp(x);
}
template <PlainNumber T>
RAPT_FN T log(T x) {
  return std::log(x);
}
template <PlainNumber T>
RAPT_FN T tanh(T x) {
  return std::tanh(x);
}
template <PlainNumber T>
RAPT_FN T floor(T x) {
  return std::floor(x);
}

// where(condition, a, b): a where the condition holds, else b, element by element.
template <PlainNumber T>
RAPT_FN constexpr T where(bool condition, T a, T b) {
  return condition ? a : b;
}

template <class T>
RAPT_FN T clamp(T x, T low, T high) {
  return min(max(x, low), high);
}
RAPT_FN constexpr std::int64_t clamp(std::int64_t x, std::int64_t low, std::int64_t high) {
  return x < low ? low : (x > high ? high : x);
}

}  // namespace rapt::inline v1
