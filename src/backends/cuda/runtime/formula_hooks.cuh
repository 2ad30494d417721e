#pragma once

#include "backends/cuda/factorized/form.cuh"
#include "backends/cuda/general/backward_free_tables.cuh"
#include "backends/cuda/general/backward_keys.cuh"
#include "backends/cuda/general/backward_queries.cuh"
#include "backends/cuda/general/backward_tables.cuh"
#include "backends/cuda/hopper/backward.cuh"
#include "backends/cuda/hopper/largest.cuh"

// What the hooks of a formula call; they follow as text.
namespace rapt::mechanisms {

using V = Number<float>;

RAPT_FN V value_of(V x) { return x; }
template <int K>
RAPT_FN V value_of(const Dual<V, K>& x) {
  return x.value;
}

// value → f, every derivative times slope. What has no derivative in a direction has none there, whatever the slope is: at
// 0, the slope of a root is infinite.
template <int K>
RAPT_FN Dual<V, K> live(const Dual<V, K>& x, V f, V slope) {
  Dual<V, K> y;
  y.value = f;
  for (int k = 0; k < K; ++k) y.d[k] = where(x.d[k] == V(0), V(0), slope * x.d[k]);
  return y;
}
template <int K>
RAPT_FN Dual<V, K> live(const Dual<V, K>& a, V slope_a, const Dual<V, K>& b, V slope_b, V f) {
  Dual<V, K> y = live(a, f, slope_a);
  for (int k = 0; k < K; ++k) y.d[k] = y.d[k] + where(b.d[k] == V(0), V(0), slope_b * b.d[k]);
  return y;
}

RAPT_FN V root(V x) { return sqrt(x); }
template <int K>
RAPT_FN Dual<V, K> root(const Dual<V, K>& x) {
  const V y = sqrt(x.value);
  return live(x, y, V(0.5f) / y);
}

RAPT_FN V logarithm(V x) { return log(x); }
template <int K>
RAPT_FN Dual<V, K> logarithm(const Dual<V, K>& x) {
  return live(x, log(x.value), V(1) / x.value);
}

RAPT_FN V quotient(V a, V b) { return a / b; }
template <int K>
RAPT_FN Dual<V, K> quotient(const Dual<V, K>& a, V b) {
  return live(a, a.value / b, V(1) / b);
}
template <int K>
RAPT_FN Dual<V, K> quotient(V a, const Dual<V, K>& b) {
  const V y = a / b.value;
  return live(b, y, -y / b.value);
}
template <int K>
RAPT_FN Dual<V, K> quotient(const Dual<V, K>& a, const Dual<V, K>& b) {
  const V y = a.value / b.value;
  return live(a, V(1) / b.value, b, -y / b.value, y);
}

// Slopes as in dual.h: in x it is 0 where y is 0, in y it is 0 where the power is.
RAPT_FN V slope_in_base(V x, V y) { return where(y == V(0), V(0), y * pow(x, y - V(1))); }
RAPT_FN V slope_in_exponent(V x, V power) { return where(power == V(0), V(0), power * log(x)); }
RAPT_FN V power(V x, V y) { return pow(x, y); }
template <int K>
RAPT_FN Dual<V, K> power(const Dual<V, K>& x, V y) {
  return live(x, pow(x.value, y), slope_in_base(x.value, y));
}
template <int K>
RAPT_FN Dual<V, K> power(V x, const Dual<V, K>& y) {
  const V f = pow(x, y.value);
  return live(y, f, slope_in_exponent(x, f));
}
template <int K>
RAPT_FN Dual<V, K> power(const Dual<V, K>& x, const Dual<V, K>& y) {
  const V f = pow(x.value, y.value);
  return live(x, slope_in_base(x.value, y.value), y, slope_in_exponent(x.value, f), f);
}

// sin and cos of r + n·π/2 with r in ±π/4, taken apart in f64, which the device is fast in: the compiler's own are long for large
// arguments, and a kernel has them many times.
struct Turned {
  float sine, cosine;
};
RAPT_DEVICE Turned turned(float x) {
  const double n = rint(static_cast<double>(x) * 0.63661977236758134308);
  const double rest = fma(-n, 6.123233995736766e-17, fma(-n, 1.57079632679489661923, static_cast<double>(x)));
  const float r = static_cast<float>(rest), s = r * r;
  const float sine =
      fmaf(r * s, fmaf(s, fmaf(s, fmaf(s, 2.7557319e-6f, -1.9841270e-4f), 8.3333333e-3f), -1.6666667e-1f), r);
  const float cosine = fmaf(
      s, fmaf(s, fmaf(s, fmaf(s, fmaf(s, -2.7557319e-7f, 2.4801587e-5f), -1.3888889e-3f), 4.1666667e-2f), -0.5f), 1.f);
  // n modulo 4; an infinite x has no n, and rest is NaN.
  const int quarter = static_cast<int>(n - 4 * floor(n * 0.25));
  const float a = quarter % 2 == 0 ? sine : cosine, b = quarter % 2 == 0 ? cosine : sine;
  return {quarter >= 2 ? -a : a, quarter == 1 || quarter == 2 ? -b : b};
}

RAPT_DEVICE V sine(V x) { return turned(x.value).sine; }
RAPT_DEVICE V cosine(V x) { return turned(x.value).cosine; }
template <int K>
RAPT_DEVICE Dual<V, K> sine(const Dual<V, K>& x) {
  const Turned t = turned(x.value.value);
  return x.chain(t.sine, t.cosine);
}
template <int K>
RAPT_DEVICE Dual<V, K> cosine(const Dual<V, K>& x) {
  const Turned t = turned(x.value.value);
  return x.chain(t.cosine, -t.sine);
}

RAPT_DEVICE V error_function(V x) { return erff(x.value); }
template <int K>
RAPT_DEVICE Dual<V, K> error_function(const Dual<V, K>& x) {
  return x.chain(error_function(x.value), V(1.1283792f) * exp(-x.value * x.value));
}

template <class N>
RAPT_FN N sigmoid(const N& x) {
  return where(x < 0, exp(x) / (1 + exp(x)), 1 / (1 + exp(-x)));
}

template <class A>
RAPT_DEVICE Number<float> table_at(const A& at, int n, Number<float> row, Number<float> col) {
  return static_cast<const cuda::FreeTable*>(at.tables)[n].at(at.head, row.value, col.value);
}

// The same in derivatives by one of the reads, whose place is kept.
template <class A>
RAPT_DEVICE Dual<V, 1> table_read(const A& at, int n, V row, V col, bool is_that, V (&place)[2]) {
  Dual<V, 1> x(table_at(at, n, row, col));
  if (is_that) {
    x.d[0] = V(1);
    place[0] = row;
    place[1] = col;
  }
  return x;
}

}  // namespace rapt::mechanisms
