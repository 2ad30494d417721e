#pragma once

#include <type_traits>

#include "rapt/numbers.h"

namespace rapt::inline v1 {

// A value with its derivatives in K directions. Hooks run on these give the derivative of any formula.
// N is float, double, or a SIMD vector; arithmetic with plain numbers treats them as constants.
template <class N, int K>
struct Dual {
  using Base = N;  // what constants become
  N value;
  N d[K];

  Dual() = default;
  RAPT_FN Dual(N v) : value(v) {
    for (int k = 0; k < K; ++k) d[k] = N(0);
  }
  template <Constant A>
    requires(!std::is_same_v<A, N>)
  RAPT_FN Dual(A v) : Dual(N(v)) {}
#if !defined(__CUDACC__)
  // The only overload of std::tanh and its like that takes a dual number.
  template <class A>
    requires std::is_same_v<A, long double>
  operator A() const {
    static_assert(!std::is_same_v<A, long double>, RAPT_NOT_OF_STD);
    return 0;
  }
#endif

  // The independent variable of direction k.
  RAPT_FN static Dual variable(N v, int k) {
    Dual x(v);
    x.d[k] = N(1);
    return x;
  }

  // value → f, every derivative times slope.
  RAPT_FN Dual chain(N f, N slope) const {
    Dual y;
    y.value = f;
    for (int k = 0; k < K; ++k) y.d[k] = slope * d[k];
    return y;
  }

  RAPT_FN Dual operator-() const { return chain(-value, N(-1)); }

  friend RAPT_FN Dual operator+(const Dual& a, const Dual& b) {
    Dual y;
    y.value = a.value + b.value;
    for (int k = 0; k < K; ++k) y.d[k] = a.d[k] + b.d[k];
    return y;
  }
  friend RAPT_FN Dual operator-(const Dual& a, const Dual& b) {
    Dual y;
    y.value = a.value - b.value;
    for (int k = 0; k < K; ++k) y.d[k] = a.d[k] - b.d[k];
    return y;
  }
  friend RAPT_FN Dual operator*(const Dual& a, const Dual& b) {
    Dual y;
    y.value = a.value * b.value;
    for (int k = 0; k < K; ++k) y.d[k] = a.d[k] * b.value + a.value * b.d[k];
    return y;
  }
  friend RAPT_FN Dual operator/(const Dual& a, const Dual& b) {
    const N inverse = N(1) / b.value;
    Dual y;
    y.value = a.value * inverse;
    for (int k = 0; k < K; ++k) y.d[k] = (a.d[k] - y.value * b.d[k]) * inverse;
    return y;
  }

  // With a constant: no derivative of it to carry.
  friend RAPT_FN Dual operator+(Dual a, N b) {
    a.value = a.value + b;
    return a;
  }
  friend RAPT_FN Dual operator+(N a, Dual b) {
    b.value = a + b.value;
    return b;
  }
  friend RAPT_FN Dual operator-(Dual a, N b) {
    a.value = a.value - b;
    return a;
  }
  friend RAPT_FN Dual operator-(N a, const Dual& b) { return b.chain(a - b.value, N(-1)); }
  friend RAPT_FN Dual operator*(const Dual& a, N b) { return a.chain(a.value * b, b); }
  friend RAPT_FN Dual operator*(N a, const Dual& b) { return b.chain(a * b.value, a); }
  friend RAPT_FN Dual operator/(const Dual& a, N b) { return a * (N(1) / b); }
  friend RAPT_FN Dual operator/(N a, const Dual& b) {
    const N f = a / b.value;
    return b.chain(f, -f / b.value);
  }

  // Comparisons look at the values alone.
  friend RAPT_FN auto operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
  friend RAPT_FN auto operator>(const Dual& a, const Dual& b) { return b.value < a.value; }
  friend RAPT_FN auto operator<=(const Dual& a, const Dual& b) { return a.value <= b.value; }
  friend RAPT_FN auto operator>=(const Dual& a, const Dual& b) { return b.value <= a.value; }
  friend RAPT_FN auto operator==(const Dual& a, const Dual& b) { return a.value == b.value; }
};

template <class N, int K, class Condition>
RAPT_FN Dual<N, K> where(Condition condition, const Dual<N, K>& a, const Dual<N, K>& b) {
  Dual<N, K> y;
  y.value = where(condition, a.value, b.value);
  for (int k = 0; k < K; ++k) y.d[k] = where(condition, a.d[k], b.d[k]);
  return y;
}

// The slope of abs at 0 is 0; min and max follow the argument they return.
template <class N, int K>
RAPT_FN Dual<N, K> abs(const Dual<N, K>& x) {
  return x.chain(abs(x.value), sign(x.value));
}
template <class N, int K>
RAPT_FN Dual<N, K> min(const Dual<N, K>& a, const Dual<N, K>& b) {
  return where(b < a || !(b == b), b, a);
}
template <class N, int K>
RAPT_FN Dual<N, K> max(const Dual<N, K>& a, const Dual<N, K>& b) {
  return where(a < b || !(b == b), b, a);
}
template <class N, int K>
RAPT_FN Dual<N, K> sign(const Dual<N, K>& x) {
  return Dual<N, K>(sign(x.value));
}
template <class N, int K>
RAPT_FN Dual<N, K> sqrt(const Dual<N, K>& x) {
  const N root = sqrt(x.value);
  return x.chain(root, N(0.5) / root);
}
template <class N, int K>
RAPT_FN Dual<N, K> exp(const Dual<N, K>& x) {
  const N e = exp(x.value);
  return x.chain(e, e);
}
template <class N, int K>
RAPT_FN Dual<N, K> log(const Dual<N, K>& x) {
  return x.chain(log(x.value), N(1) / x.value);
}
template <class N, int K>
RAPT_FN Dual<N, K> tanh(const Dual<N, K>& x) {
  const ValueAndSlope<N> t = tanh_and_slope(x.value);
  return x.chain(t.value, t.slope);
}
template <class N, int K>
RAPT_FN Dual<N, K> floor(const Dual<N, K>& x) {
  return Dual<N, K>(floor(x.value));
}

template <class N, int K>
RAPT_FN Dual<N, K> sin(const Dual<N, K>& x) {
  return x.chain(sin(x.value), cos(x.value));
}
template <class N, int K>
RAPT_FN Dual<N, K> cos(const Dual<N, K>& x) {
  return x.chain(cos(x.value), -sin(x.value));
}
// The slope in x is y·x^(y−1), 0 where y is 0; in y it is x^y·log(x), 0 where x^y is 0.
template <class N, int K>
RAPT_FN Dual<N, K> pow(const Dual<N, K>& x, const N& y) {
  return x.chain(pow(x.value, y), where(y == N(0), N(0), y * pow(x.value, y - N(1))));
}
template <class N, int K>
RAPT_FN Dual<N, K> pow(const Dual<N, K>& x, const Dual<N, K>& y) {
  Dual<N, K> power = pow(x, y.value);
  const N slope = where(power.value == N(0), N(0), power.value * log(x.value));
  // A constant exponent of a negative number has no slope to spoil.
  for (int k = 0; k < K; ++k) power.d[k] = power.d[k] + where(y.d[k] == N(0), N(0), slope * y.d[k]);
  return power;
}

}  // namespace rapt::inline v1
