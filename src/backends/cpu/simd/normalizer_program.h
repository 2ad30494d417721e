#pragma once

#include "backends/cpu/simd/weights.h"
#include "normalizers/contract.h"

// Runs a normaliser's weight() over tiles of scores; its slope comes from dual numbers.
namespace rapt::inline v1::RAPT_TARGET {

template <class W, class T, class F>
RAPT_FN void for_each_weight(const WeightTile<T>& tile, F&& f) {
  const Tag<T> tag;
  const Vec<T> largest = hn::Set(tag, kLargest<T>);
  for (int c = 0; c < tile.columns; c += kLanes<T>) {
    const Vec<T> shift = shift_of<T>(hn::LoadU(tag, tile.row_max + c));
    const Vec<T> threshold = hn::LoadU(tag, tile.threshold + c);
    for (int j = 0; j < tile.keys; ++j) {
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(j) * tile.stride + c;
      // A score of +∞ counts as the largest number.
      const Vec<T> given = hn::LoadU(tag, tile.tile + at);
      const Vec<T> s = hn::IfThenElse(hn::Gt(given, largest), largest, given);
      f(c, at, s, Lane<T>(hn::Sub(hn::Sub(s, shift), threshold)));
    }
  }
}

template <class W, class T>
RAPT_FN Lane<T> weight_of(Lane<T> x, const T* values) {
  constexpr int kSlots = detail::normalizer_slots<W>();
  Lane<T> p[kSlots + 1]{};
  for (int n = 0; n < kSlots; ++n) p[n] = Lane<T>(values[n]);
  // A formula may drop a NaN, as max(x, 0) does; here it stays.
  return keep_nan<T>(x.v, W{}.weight(x, static_cast<const Lane<T>*>(p)).v);
}

// Derivatives by x and by every p[n].
template <class W, class T>
RAPT_FN auto dual_weight(Lane<T> x, const T* values) {
  constexpr int kSlots = detail::normalizer_slots<W>();
  using N = Dual<Lane<T>, kSlots + 1>;
  N p[kSlots + 1]{};
  for (int n = 0; n < kSlots; ++n) p[n] = N::variable(Lane<T>(values[n]), n + 1);
  N y = W{}.weight(N::variable(x, 0), static_cast<const N*>(p));
  y.value = keep_nan<T>(x.v, y.value.v);
  return y;
}

// A hidden score has no weight and no slope, whatever the formula gives at −∞; nor has a weight of 0 a slope.
template <class W, class T>
void weight_tile(const WeightTile<T>& tile) {
  const Tag<T> tag;
  const Vec<T> hidden = hn::Set(tag, -kInfinity<T>);
  if (!tile.slopes) {
    for_each_weight<W>(tile, [&](int, std::ptrdiff_t at, Vec<T> s, Lane<T> x) {
      hn::StoreU(hn::IfThenZeroElse(hn::Eq(s, hidden), weight_of<W>(x, tile.values).v), tag, tile.tile + at);
    });
    return;
  }
  for_each_weight<W>(tile, [&](int, std::ptrdiff_t at, Vec<T> s, Lane<T> x) {
    const auto y = dual_weight<W>(x, tile.values);
    const Vec<T> w = hn::IfThenZeroElse(hn::Eq(s, hidden), y.value.v);
    hn::StoreU(w, tag, tile.tile + at);
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(w, hn::Zero(tag)), y.d[0].v), tag, tile.slopes + at);
  });
}

// Of this tile alone first: long rows then lose fewer digits.
template <class W, class T>
void sum_tile(const WeightTile<T>& tile) {
  const Tag<T> tag;
  const Vec<T> zero = hn::Zero(tag);
  for (int c = 0; c < tile.columns; c += kLanes<T>) {
    WeightTile<T> strip = tile;
    strip.tile += c;
    strip.row_max += c;
    strip.threshold += c;
    strip.columns = kLanes<T>;
    Vec<T> weights = zero, slopes = zero;
    for_each_weight<W>(strip, [&](int, std::ptrdiff_t, Vec<T> s, Lane<T> x) {
      const auto y = dual_weight<W>(x, tile.values);
      const Vec<T> w = hn::IfThenZeroElse(hn::Eq(s, hn::Set(tag, -kInfinity<T>)), y.value.v);
      weights = hn::Add(weights, w);
      slopes = hn::Add(slopes, hn::IfThenZeroElse(hn::Eq(w, zero), y.d[0].v));
    });
    hn::StoreU(hn::Add(hn::LoadU(tag, tile.weight_sum + c), weights), tag, tile.weight_sum + c);
    hn::StoreU(hn::Add(hn::LoadU(tag, tile.slope_sum + c), slopes), tag, tile.slope_sum + c);
  }
}

template <class W, class T>
void parameter_gradient_tile(const WeightTile<T>& tile) {
  constexpr int kSlots = detail::normalizer_slots<W>();
  const Tag<T> tag;
  Vec<T> sums[kSlots + 1];
  for (int n = 0; n < kSlots; ++n) sums[n] = hn::Zero(tag);
  for_each_weight<W>(tile, [&](int, std::ptrdiff_t at, Vec<T> s, Lane<T> x) {
    const auto y = dual_weight<W>(x, tile.values);
    const auto none = hn::Or(hn::Eq(s, hn::Set(tag, -kInfinity<T>)), hn::Eq(y.value.v, hn::Zero(tag)));
    const Vec<T> g = hn::IfThenZeroElse(none, hn::LoadU(tag, tile.grad + at));
    for (int n = 0; n < kSlots; ++n) sums[n] = hn::Add(sums[n], hn::IfThenZeroElse(none, hn::Mul(g, y.d[n + 1].v)));
  });
  for (int n = 0; n < kSlots; ++n)
    tile.value_grads[n] += static_cast<double>(hn::GetLane(hn::SumOfLanes(tag, sums[n])));
}

template <class W, class T>
NormalizerProgram<T> make_normalizer() {
  static_assert(detail::check_normalizer<W>());
  NormalizerProgram<T> program;
  program.threshold = W::threshold;
  if constexpr (W::threshold == Threshold::none || W::threshold == Threshold::solved) {
    program.weights = &weight_tile<W, T>;
    program.sum = &sum_tile<W, T>;
    if constexpr (detail::normalizer_slots<W>() > 0) program.parameter_gradient = &parameter_gradient_tile<W, T>;
  }
  if constexpr (W::threshold == Threshold::solved) program.reach = static_cast<T>(W::reach);
  return program;
}

}  // namespace rapt::inline v1::RAPT_TARGET
