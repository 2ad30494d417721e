#pragma once

#include <array>
#include <cstddef>

#include "backends/cpu/simd/lane.h"

namespace rapt::inline v1::RAPT_TARGET {

// Chebyshev fits, the highest power first: up to 1, erf(x)/x in powers of x²; from there to `end`, e^(x²)·erfc(x) in powers
// of (x − middle)/(x + middle); past `end`, erf(x) is 1 to the last place.
template <class T>
struct ErfFit;
template <>
struct ErfFit<double> {
  static constexpr double middle = 3, end = 6;
  static constexpr std::array near{5.957176147748911e-11,   -1.1372848856791674e-09, 1.4659775274047436e-08,
                                   -1.6350312701054695e-07, 1.6461000484121368e-06,  -1.4925595266831182e-05,
                                   0.0001205533111164271,   -0.000854832698083379,   0.0052239776248180145,
                                   -0.026866170645076792,   0.11283791670954879,     -0.3761263890318375,
                                   1.1283791670955126};
  static constexpr std::array far{-2.0355575642200858e-07, -2.6915157592850126e-07, 1.2459620847174093e-06,
                                  2.1124428949403864e-06,  -7.977696579644072e-06,  -1.2859347351455289e-05,
                                  6.405657794051666e-05,   4.525520140579536e-05,   -0.0005970619531815352,
                                  0.0007077464435611972,   0.004269136333077869,    -0.024392499318790735,
                                  0.07166583719797331,     -0.15011593650077582,    0.24560380171233093,
                                  -0.3262335600430372,     0.17900115118138996};
};
template <>
struct ErfFit<float> {
  static constexpr float middle = 2, end = 4;
  static constexpr std::array near{7.875875e-05F, -0.00080168643F, 0.0051890874F, -0.026854212F,
                                   0.112835947F,  -0.37612627F,    1.1283792F};
  static constexpr std::array far{-0.00094415963F, -0.0008365900F, 0.0069948554F, 0.0037321413F,
                                  -0.078978523F,   0.24165821F,    -0.42718585F,  0.25539568F};
};

template <class T, std::size_t N>
RAPT_FN Lane<T> polynomial(const std::array<T, N>& coefficients, Lane<T> x) {
  Lane<T> y(coefficients[0]);
  for (std::size_t n = 1; n < N; ++n) y = mul_add(y, x, Lane<T>(coefficients[n]));
  return y;
}

// Within 4 units in the last place; NaN stays.
template <class T>
RAPT_FN Lane<T> erf(Lane<T> x) {
  using Fit = ErfFit<T>;
  const Lane<T> a = min(abs(x), Lane<T>(Fit::end)), z = a * a;
  const Lane<T> near = a * polynomial(Fit::near, z);
  const Lane<T> far = polynomial(Fit::far, (a - Lane<T>(Fit::middle)) / (a + Lane<T>(Fit::middle)));
  const Lane<T> y = where(a <= Lane<T>(1), near, Lane<T>(1) - exp(-z) * far);
  return keep_nan<T>(x.v, hn::CopySign(y.v, x.v));
}

}  // namespace rapt::inline v1::RAPT_TARGET
