#pragma once

#include <limits>

#include "backends/cpu/simd/rows.h"

// From scores to weights: the exponential and what a row's running maximum needs.
namespace rapt::inline v1::RAPT_TARGET {

template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr T kLargest = std::numeric_limits<T>::max();

// How far above the running maximum a score may be before the maximum follows.
template <class T>
inline constexpr T kSlack = 8;

// e^x for x ≤ kSlack, exactly 0 for −∞ and below the smallest normal number; NaN stays.
RAPT_FN Vec<float> exp_weight(Vec<float> x) {
  const Tag<float> tag;
  // Where x is hidden or tiny whatever comes out is dropped.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(tag, -87.3F)), exp_within(x));
}

RAPT_FN Vec<double> exp_weight(Vec<double> x) {
  const Tag<double> tag;
  const Vec<double> floor = hn::Set(tag, -708.0);
  const auto tiny = hn::Lt(x, floor);
  const Vec<double> e = hn::IfThenZeroElse(tiny, hn::Exp(tag, hn::IfThenElse(tiny, floor, x)));
  return hn::IfThenElse(hn::Eq(x, x), e, x);  // the library's exponential gives a number for NaN
}

// What to subtract: the maximum, or 0 where the row has seen nothing.
template <class T>
RAPT_FN Vec<T> shift_of(Vec<T> row_max) {
  const Tag<T> tag;
  return hn::IfThenZeroElse(hn::Eq(row_max, hn::Set(tag, -kInfinity<T>)), row_max);
}

// The maximum to go on with, after scores of which `top` is the largest. One that moved little is not followed: weights
// stay far from the largest number, and nothing has to be rescaled.
template <class T>
RAPT_FN Vec<T> follow(Vec<T> before, Vec<T> top, Vec<T> slack) {
  return hn::IfThenElse(hn::Gt(hn::Sub(top, before), slack), top, before);
}

// Scores of +∞ become the largest number: such keys share all the weight.
template <class T>
void clamp_scores(T* scores, std::int64_t count) {
  const Tag<T> tag;
  const Vec<T> top = hn::Set(tag, kLargest<T>);
  for (std::int64_t n = 0; n < count; n += kLanes<T>) {
    const Vec<T> s = hn::LoadU(tag, scores + n);
    hn::StoreU(hn::IfThenElse(hn::Gt(s, top), top, s), tag, scores + n);
  }
}

// scores [keys][stride] → weights e^{score − max} · factor, in place, of the first columns.
template <class T>
void weights_from_scores(T* scores, int keys, int columns, int stride, const T* row_max, const T* factor) {
  const Tag<T> tag;
  for (int c = 0; c < columns; c += kLanes<T>) {
    const Vec<T> shift = shift_of<T>(hn::LoadU(tag, row_max + c));
    const Vec<T> f = hn::LoadU(tag, factor + c);
    const auto nothing = hn::Eq(f, hn::Zero(tag));
    T* s = scores + c;
    for (int j = 0; j < keys; ++j, s += stride) {
      // A hidden pair has weight 0 even in a row whose sum is NaN, and a row without a sum has none, whatever it scores.
      const Vec<T> e = exp_weight(hn::Sub(hn::LoadU(tag, s), shift));
      hn::StoreU(hn::IfThenZeroElse(hn::Or(nothing, hn::Eq(e, hn::Zero(tag))), hn::Mul(e, f)), tag, s);
    }
  }
}

}  // namespace rapt::inline v1::RAPT_TARGET
