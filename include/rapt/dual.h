#pragma once

#include <type_traits>

#include "rapt/numbers.h"

namespace rapt::inline v1 {

// A value with its derivatives in K directions. Hooks run on these give the derivative of any formula.
// N is float, double, or a SIMD vector; arithmetic with plain numbers treats them as constants.
template <class N, int K>
struct Dual {
  N value;
  N d[K];

  Dual() = default;
  RAPT_FN Dual(N v) : value(v) {
    for (int k = 0; k < K; ++k) d[k] = N(0);
  }
  template <class A>
    requires(std::is_arithmetic_v<A> && !std::is_same_v<A, N>)
  RAPT_FN Dual(A v) : Dual(N(v)) {}

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

  template <class A>
  static constexpr bool is_constant = std::is_arithmetic_v<A> && !std::is_same_v<A, N>;
  template <class A>
    requires is_constant<A>
  friend RAPT_FN Dual operator+(Dual a, A b) { return a + N(b); }
  template <class A>
    requires is_constant<A>
  friend RAPT_FN Dual operator+(A a, Dual b) { return N(a) + b; }
  template <class A>
    requires is_constant<A>
  friend RAPT_FN Dual operator-(Dual a, A b) { return a - N(b); }
  template <class A>
    requires is_constant<A>
  friend RAPT_FN Dual operator-(A a, Dual b) { return N(a) - b; }
  template <class A>
    requires is_constant<A>
  friend RAPT_FN Dual operator*(Dual a, A b) { return a * N(b); }
  template <class A>
    requires is_constant<A>
  friend RAPT_FN Dual operator*(A a, Dual b) { return N(a) * b; }
  template <class A>
    requires is_constant<A>
  friend RAPT_FN Dual operator/(Dual a, A b) { return a / N(b); }
  template <class A>
    requires is_constant<A>
  friend RAPT_FN Dual operator/(A a, Dual b) { return N(a) / b; }

  // Comparisons look at the values alone.
  friend RAPT_FN auto operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
  friend RAPT_FN auto operator>(const Dual& a, const Dual& b) { return b.value < a.value; }
  friend RAPT_FN auto operator<=(const Dual& a, const Dual& b) { return a.value <= b.value; }
  friend RAPT_FN auto operator>=(const Dual& a, const Dual& b) { return b.value <= a.value; }
};

template <class N, int K, class Condition>
RAPT_FN Dual<N, K> where(Condition condition, const Dual<N, K>& a, const Dual<N, K>& b) {
  Dual<N, K> y;
  y.value = where(condition, a.value, b.value);
  for (int k = 0; k < K; ++k) y.d[k] = where(condition, a.d[k], b.d[k]);
  return y;
}

// The slope of abs at 0 is taken as 0; min and max follow the argument they return.
template <class N, int K>
RAPT_FN Dual<N, K> abs(const Dual<N, K>& x) {
  const N sign = where(N(0) < x.value, N(1), where(x.value < N(0), N(-1), N(0)));
  return x.chain(abs(x.value), sign);
}
template <class N, int K>
RAPT_FN Dual<N, K> min(const Dual<N, K>& a, const Dual<N, K>& b) {
  return where(b < a, b, a);
}
template <class N, int K>
RAPT_FN Dual<N, K> max(const Dual<N, K>& a, const Dual<N, K>& b) {
  return where(a < b, b, a);
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
  const N t = tanh(x.value);
  return x.chain(t, N(1) - t * t);
}
template <class N, int K>
RAPT_FN Dual<N, K> floor(const Dual<N, K>& x) {
  return Dual<N, K>(floor(x.value));
}

}  // namespace rapt::inline v1
