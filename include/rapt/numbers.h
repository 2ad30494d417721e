#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

// The functions that hooks may call on numbers. The same names exist for plain numbers, dual numbers and SIMD vectors,
// so that one formula serves all of them. NaN stays NaN in every function.
#if defined(__CUDACC__)
#define RAPT_FN __host__ __device__ __forceinline__
#else
#define RAPT_FN inline __attribute__((always_inline))
#endif

#define RAPT_NOT_OF_STD \
  "rapt: functions of std do not take the numbers of hooks: write tanh(x) or rapt::tanh(x), not std::tanh(x)"

namespace rapt::inline v1 {

template <class T> concept PlainNumber = std::is_same_v<T, float> || std::is_same_v<T, double>;
template <class T> concept Constant = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

template <PlainNumber T>
RAPT_FN constexpr T abs(T x) {
#if defined(__CUDACC__)
  return std::fabs(x);
#else
  if constexpr (std::is_same_v<T, float>) return __builtin_fabsf(x);
  else return __builtin_fabs(x);
#endif
}
// NaN stays: a number that is not itself. NOLINTBEGIN(misc-redundant-expression)
template <PlainNumber T>
RAPT_FN constexpr T min(T a, T b) {
  return b < a || b != b ? b : a;
}
template <PlainNumber T>
RAPT_FN constexpr T max(T a, T b) {
  return a < b || b != b ? b : a;
}
// NOLINTEND(misc-redundant-expression)
template <PlainNumber T>
RAPT_FN constexpr T clamp(T x, T low, T high) {
  return min(max(x, low), high);
}
// −1, 0 or 1.
template <PlainNumber T>
RAPT_FN constexpr T sign(T x) {
  return x > T(0) ? T(1) : (x < T(0) ? T(-1) : x);
}
template <PlainNumber T>
RAPT_FN T floor(T x) {
  return std::floor(x);
}
template <PlainNumber T>
RAPT_FN T sqrt(T x) {
  return std::sqrt(x);
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
RAPT_FN T sin(T x) {
  return std::sin(x);
}
template <PlainNumber T>
RAPT_FN T cos(T x) {
  return std::cos(x);
}
template <PlainNumber T>
RAPT_FN T pow(T x, T y) {
  return std::pow(x, y);
}
template <PlainNumber T>
RAPT_FN T reciprocal(T x) {
  return T(1) / x;
}
template <PlainNumber T>
RAPT_FN T mul_add(T a, T b, T c) {
  return a * b + c;
}

// where(condition, a, b): a where the condition holds, else b, element by element.
template <PlainNumber T>
RAPT_FN constexpr T where(bool condition, T a, T b) {
  return condition ? a : b;
}

// Numbers of two types: max(x, 0), where(condition, x, 0.5).
template <class A, class B>
concept MixedPlain = Constant<A> && Constant<B> && !std::is_same_v<A, B> && (PlainNumber<A> || PlainNumber<B>);
template <class A, class B>
requires MixedPlain<A, B> RAPT_FN auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return min(static_cast<T>(a), static_cast<T>(b));
}
template <class A, class B>
requires MixedPlain<A, B> RAPT_FN auto max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return max(static_cast<T>(a), static_cast<T>(b));
}
template <class A, class B>
requires MixedPlain<A, B> RAPT_FN auto where(bool condition, A a, B b) {
  using T = std::common_type_t<A, B>;
  return condition ? static_cast<T>(a) : static_cast<T>(b);
}
template <PlainNumber T, Constant A, Constant B>
  requires(!(std::is_same_v<T, A> && std::is_same_v<T, B>))
RAPT_FN T clamp(T x, A low, B high) { return clamp(x, static_cast<T>(low), static_cast<T>(high)); }

RAPT_FN constexpr std::int64_t clamp(std::int64_t x, std::int64_t low, std::int64_t high) {
  return x < low ? low : (x > high ? high : x);
}

namespace detail {

RAPT_FN bool is_small_power(double y) { return y == 1 || y == 2 || y == 3 || y == 4; }

// x to the power of 1, 2, 3 or 4, by products.
template <class X>
RAPT_FN X small_power(const X& x, double y) {
  if (y == 1) return x;
  const X square = x * x;
  return y == 2 ? square : (y == 3 ? square * x : square * square);
}

}  // namespace detail

template <PlainNumber T, Constant A>
  requires(!std::is_same_v<T, A>)
RAPT_FN T pow(T x, A y) {
  const auto exponent = static_cast<double>(y);
  return detail::is_small_power(exponent) ? detail::small_power(x, exponent) : std::pow(x, static_cast<T>(y));
}

// A plain number as hooks see it: of this namespace, so that abs(x) is rapt::abs wherever the hook is written. (The abs
// that a plain float finds may be the C library's for integers.)
template <PlainNumber T>
struct Number {
  using Base = Number;  // what constants become
  T value;

  Number() = default;
  RAPT_FN constexpr Number(T v) : value(v) {}
  template <Constant A>
    requires(!std::is_same_v<A, T>)
  RAPT_FN constexpr Number(A v) : value(static_cast<T>(v)) {}

  template <Constant A>
    requires(!std::is_same_v<A, long double>)
  RAPT_FN constexpr explicit operator A() const { return static_cast<A>(value); }
#if !defined(__CUDACC__)
  // The only overload of std::tanh and its like that takes one of these numbers.
  template <class A>
    requires std::is_same_v<A, long double>
  constexpr operator A() const {
    static_assert(!std::is_same_v<A, long double>, RAPT_NOT_OF_STD);
    return 0;
  }
#endif

  RAPT_FN constexpr Number operator-() const { return -value; }
  friend RAPT_FN constexpr Number operator+(Number a, Number b) { return a.value + b.value; }
  friend RAPT_FN constexpr Number operator-(Number a, Number b) { return a.value - b.value; }
  friend RAPT_FN constexpr Number operator*(Number a, Number b) { return a.value * b.value; }
  friend RAPT_FN constexpr Number operator/(Number a, Number b) { return a.value / b.value; }
  friend RAPT_FN constexpr bool operator<(Number a, Number b) { return a.value < b.value; }
  friend RAPT_FN constexpr bool operator>(Number a, Number b) { return a.value > b.value; }
  friend RAPT_FN constexpr bool operator<=(Number a, Number b) { return a.value <= b.value; }
  friend RAPT_FN constexpr bool operator>=(Number a, Number b) { return a.value >= b.value; }
  friend RAPT_FN constexpr bool operator==(Number a, Number b) { return a.value == b.value; }
};

template <PlainNumber T>
RAPT_FN Number<T> abs(Number<T> x) {
  return abs(x.value);
}
template <PlainNumber T>
RAPT_FN Number<T> min(Number<T> a, Number<T> b) {
  return min(a.value, b.value);
}
template <PlainNumber T>
RAPT_FN Number<T> max(Number<T> a, Number<T> b) {
  return max(a.value, b.value);
}
template <PlainNumber T>
RAPT_FN Number<T> sign(Number<T> x) {
  return sign(x.value);
}
template <PlainNumber T>
RAPT_FN Number<T> floor(Number<T> x) {
  return floor(x.value);
}
template <PlainNumber T>
RAPT_FN Number<T> sqrt(Number<T> x) {
  return sqrt(x.value);
}
template <PlainNumber T>
RAPT_FN Number<T> exp(Number<T> x) {
  return exp(x.value);
}
template <PlainNumber T>
RAPT_FN Number<T> log(Number<T> x) {
  return log(x.value);
}
template <PlainNumber T>
RAPT_FN Number<T> tanh(Number<T> x) {
  return tanh(x.value);
}
template <PlainNumber T>
RAPT_FN Number<T> sin(Number<T> x) {
  return sin(x.value);
}
template <PlainNumber T>
RAPT_FN Number<T> cos(Number<T> x) {
  return cos(x.value);
}
template <PlainNumber T>
RAPT_FN Number<T> pow(Number<T> x, Number<T> y) {
  return pow(x.value, y.value);
}
template <PlainNumber T>
RAPT_FN Number<T> reciprocal(Number<T> x) {
  return reciprocal(x.value);
}
template <PlainNumber T>
RAPT_FN Number<T> mul_add(Number<T> a, Number<T> b, Number<T> c) {
  return a * b + c;
}
template <PlainNumber T>
RAPT_FN Number<T> where(bool condition, Number<T> a, Number<T> b) {
  return condition ? a : b;
}

template <class N>
struct ValueAndSlope {
  N value, slope;
};

// 1 − tanh² has no digits left where tanh is near 1: with e = e^(−2|x|) the slope is 4e/(1 + e)². SIMD vectors of f32 have
// their own; on a GPU, which has no f64, the exponential would cost more than it is worth.
template <class N>
RAPT_FN ValueAndSlope<N> tanh_and_slope(N x) {
  const N t = tanh(x);
#if defined(__CUDACC__)
  return {t, N(1) - t * t};
#else
  const N e = exp(abs(x) * N(-2)), r = N(1) / (N(1) + e);
  return {t, N(4) * e * r * r};
#endif
}

// The type of constants beside a number X of hooks, X::Base: Number<T> itself; for a dual number, the number it is
// made of.
template <class X> concept HookNumber = requires { typename X::Base; };
template <class A, class X>
concept ConstantOf = HookNumber<X> &&(Constant<A> || (std::is_same_v<A, typename X::Base> && !std::is_same_v<A, X>));

template <HookNumber X, Constant A>
RAPT_FN X operator+(const X& a, A b) {
  return a + typename X::Base(b);
}
template <HookNumber X, Constant A>
RAPT_FN X operator+(A a, const X& b) {
  return typename X::Base(a) + b;
}
template <HookNumber X, Constant A>
RAPT_FN X operator-(const X& a, A b) {
  return a - typename X::Base(b);
}
template <HookNumber X, Constant A>
RAPT_FN X operator-(A a, const X& b) {
  return typename X::Base(a) - b;
}
template <HookNumber X, Constant A>
RAPT_FN X operator*(const X& a, A b) {
  return a * typename X::Base(b);
}
template <HookNumber X, Constant A>
RAPT_FN X operator*(A a, const X& b) {
  return typename X::Base(a) * b;
}
template <HookNumber X, Constant A>
RAPT_FN X operator/(const X& a, A b) {
  return a / typename X::Base(b);
}
template <HookNumber X, Constant A>
RAPT_FN X operator/(A a, const X& b) {
  return typename X::Base(a) / b;
}

template <HookNumber X, ConstantOf<X> A>
RAPT_FN auto operator<(const X& a, const A& b) {
  return a < X(b);
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN auto operator<(const A& a, const X& b) {
  return X(a) < b;
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN auto operator>(const X& a, const A& b) {
  return a > X(b);
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN auto operator>(const A& a, const X& b) {
  return X(a) > b;
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN auto operator<=(const X& a, const A& b) {
  return a <= X(b);
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN auto operator<=(const A& a, const X& b) {
  return X(a) <= b;
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN auto operator>=(const X& a, const A& b) {
  return a >= X(b);
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN auto operator>=(const A& a, const X& b) {
  return X(a) >= b;
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN auto operator==(const X& a, const A& b) {
  return a == X(b);
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN auto operator==(const A& a, const X& b) {
  return X(a) == b;
}

template <HookNumber X, ConstantOf<X> A>
RAPT_FN X min(const X& a, const A& b) {
  return min(a, X(b));
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN X min(const A& a, const X& b) {
  return min(X(a), b);
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN X max(const X& a, const A& b) {
  return max(a, X(b));
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN X max(const A& a, const X& b) {
  return max(X(a), b);
}
template <HookNumber X, class A, class B>
  requires(std::is_convertible_v<A, X>&& std::is_convertible_v<B, X>)
RAPT_FN X clamp(const X& x, const A& low, const B& high) { return min(max(x, X(low)), X(high)); }
template <class Condition, HookNumber X, ConstantOf<X> A>
RAPT_FN X where(const Condition& condition, const X& a, const A& b) {
  return where(condition, a, X(b));
}
template <class Condition, HookNumber X, ConstantOf<X> A>
RAPT_FN X where(const Condition& condition, const A& a, const X& b) {
  return where(condition, X(a), b);
}
template <HookNumber X, Constant A>
RAPT_FN X pow(const X& x, A y) {
  const auto exponent = static_cast<double>(y);
  return detail::is_small_power(exponent) ? detail::small_power(x, exponent) : pow(x, typename X::Base(y));
}
template <HookNumber X, ConstantOf<X> A>
RAPT_FN X pow(const A& x, const X& y) {
  return pow(X(x), y);
}

}  // namespace rapt::inline v1
