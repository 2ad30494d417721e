#pragma once

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "rapt/hooks.h"

// SIMD vectors as numbers, so that hooks run on them. Everything is in the target's own namespace.
namespace rapt::inline v1::RAPT_TARGET {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

// Vectors that the processor holds at a time.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr int kRegisters = 32;
#else
inline constexpr int kRegisters = 16;
#endif

template <class T>
struct Condition {
  hn::Mask<Tag<T>> mask;

  RAPT_FN Condition operator!() const { return {hn::Not(mask)}; }
  friend RAPT_FN Condition operator&&(Condition a, Condition b) { return {hn::And(a.mask, b.mask)}; }
  friend RAPT_FN Condition operator||(Condition a, Condition b) { return {hn::Or(a.mask, b.mask)}; }

  template <class B>
    requires std::is_same_v<B, bool>
  explicit operator B() const {
    static_assert(!std::is_same_v<B, bool>,
                  "rapt: a condition holds for some lanes: write where(condition, a, b), not if");
    return false;
  }
};

// Highway's functions may give a number for NaN; here NaN stays.
template <class T>
RAPT_FN Vec<T> keep_nan(Vec<T> x, Vec<T> y) {
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

// Constants become lanes by themselves: x * 2, max(x, 0), where(condition, x, 0).
template <class T>
struct Lane {
  Vec<T> v;

  Lane() = default;
  RAPT_FN Lane(Vec<T> x) : v(x) {}
  template <Constant A>
  RAPT_FN Lane(A x) : v(hn::Set(Tag<T>(), static_cast<T>(x))) {}

  RAPT_FN Lane operator-() const { return hn::Neg(v); }
  friend RAPT_FN Lane operator+(Lane a, Lane b) { return hn::Add(a.v, b.v); }
  friend RAPT_FN Lane operator-(Lane a, Lane b) { return hn::Sub(a.v, b.v); }
  friend RAPT_FN Lane operator*(Lane a, Lane b) { return hn::Mul(a.v, b.v); }
  friend RAPT_FN Lane operator/(Lane a, Lane b) { return hn::Div(a.v, b.v); }
  friend RAPT_FN Condition<T> operator<(Lane a, Lane b) { return {hn::Lt(a.v, b.v)}; }
  friend RAPT_FN Condition<T> operator>(Lane a, Lane b) { return {hn::Gt(a.v, b.v)}; }
  friend RAPT_FN Condition<T> operator<=(Lane a, Lane b) { return {hn::Le(a.v, b.v)}; }
  friend RAPT_FN Condition<T> operator>=(Lane a, Lane b) { return {hn::Ge(a.v, b.v)}; }
  friend RAPT_FN Condition<T> operator==(Lane a, Lane b) { return {hn::Eq(a.v, b.v)}; }

  friend RAPT_FN Lane where(Condition<T> c, Lane a, Lane b) { return hn::IfThenElse(c.mask, a.v, b.v); }
  friend RAPT_FN Lane where(bool c, Lane a, Lane b) { return c ? a : b; }
  friend RAPT_FN Lane min(Lane a, Lane b) { return Lane(keep_nan<T>(a.v, keep_nan<T>(b.v, hn::Min(a.v, b.v)))); }
  friend RAPT_FN Lane max(Lane a, Lane b) { return Lane(keep_nan<T>(a.v, keep_nan<T>(b.v, hn::Max(a.v, b.v)))); }
  friend RAPT_FN Lane clamp(Lane x, Lane low, Lane high) { return min(max(x, low), high); }
};

template <class T>
RAPT_FN Lane<T> abs(Lane<T> x) {
  return hn::Abs(x.v);
}
template <class T>
RAPT_FN Lane<T> sign(Lane<T> x) {
  const Lane<T> zero(0);
  return where(zero < x, Lane<T>(1), where(x < zero, Lane<T>(-1), x));
}
template <class T>
RAPT_FN Lane<T> sqrt(Lane<T> x) {
  return hn::Sqrt(x.v);
}
template <class T>
RAPT_FN Lane<T> floor(Lane<T> x) {
  return hn::Floor(x.v);
}
// e^x = (e^(x/2))² where Highway's range ends before that of the results.
RAPT_FN Lane<double> exp(Lane<double> x) {
  const Tag<double> tag;
  const auto y = hn::Min(x.v, hn::Set(tag, 710.0));
  const auto large = hn::Gt(y, hn::Set(tag, 706.0));
  const auto e = hn::Exp(tag, hn::IfThenElse(large, hn::Mul(y, hn::Set(tag, 0.5)), y));
  return keep_nan<double>(x.v, hn::IfThenElse(large, hn::Mul(e, e), e));
}
// p·2^n for whole n from −126 to 127.
RAPT_FN Vec<float> times_power(Vec<float> p, Vec<float> n) {
#if HWY_TARGET <= HWY_AVX3
  return Vec<float>{_mm512_scalef_ps(p.raw, n.raw)};
#else
  const hn::RebindToSigned<Tag<float>> whole;
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(whole, n), hn::Set(whole, 127)));
  return hn::Mul(p, hn::BitCast(Tag<float>(), power));
#endif
}

// e^x for x from −87.3 to 88.3; NaN stays.
RAPT_FN Vec<float> exp_within(Vec<float> x) {
  const Tag<float> tag;
  const Vec<float> n = hn::Round(hn::Mul(x, hn::Set(tag, 1.44269504F)));
#if HWY_TARGET <= HWY_AVX2 || HWY_ARCH_ARM
  // x·log₂e − n, with the digits of log₂e that one number does not hold.
  Vec<float> f = hn::MulSub(x, hn::Set(tag, 1.44269504F), n);
  f = hn::MulAdd(x, hn::Set(tag, 1.925963033500011e-08F), f);
#else
  // Without fused multiply-adds x − n·ln2 in two steps keeps all digits.
  const Vec<float> r =
      hn::Sub(hn::Sub(x, hn::Mul(n, hn::Set(tag, 0.693359375F))), hn::Mul(n, hn::Set(tag, -2.12194440e-4F)));
  const Vec<float> f = hn::Mul(r, hn::Set(tag, 1.44269504F));
#endif
  Vec<float> p = hn::Set(tag, 0.00015353361959569156F);
  p = hn::MulAdd(p, f, hn::Set(tag, 0.0013398875016719103F));
  p = hn::MulAdd(p, f, hn::Set(tag, 0.00961843691766262F));
  p = hn::MulAdd(p, f, hn::Set(tag, 0.055503323674201965F));
  p = hn::MulAdd(p, f, hn::Set(tag, 0.24022647738456726F));
  p = hn::MulAdd(p, f, hn::Set(tag, 0.6931471824645996F));
  return times_power(hn::MulAdd(p, f, hn::Set(tag, 1.0F)), n);
}

// Most numbers lie where the short one holds. Each lane goes its own way: its bits do not depend on its neighbours.
RAPT_FN Lane<float> exp(Lane<float> x) {
  const Tag<float> tag;
  const Vec<float> most = hn::Set(tag, 104.0F);
#if HWY_TARGET > HWY_AVX2 && !HWY_ARCH_ARM  // without fused multiply-adds the short one loses a digit
  return keep_nan<float>(x.v, hn::Exp(tag, hn::Min(x.v, most)));
#else
  const auto within = hn::And(hn::Ge(x.v, hn::Set(tag, -87.3F)), hn::Le(x.v, hn::Set(tag, 88.3F)));
  const Vec<float> inside = exp_within(hn::IfThenElseZero(within, x.v));
  if (hn::AllTrue(tag, within)) return inside;
  const Vec<float> outside = keep_nan<float>(x.v, hn::Exp(tag, hn::Min(x.v, most)));
  return hn::IfThenElse(within, inside, outside);
#endif
}
// Highway's takes what is above 0 and finite.
template <class T>
RAPT_FN Lane<T> log(Lane<T> x) {
  const Lane<T> infinite(HUGE_VAL), outside = where(x == Lane<T>(0), -infinite, Lane<T>(NAN));
  return where(Lane<T>(0) < x && x < infinite, Lane<T>(hn::Log(Tag<T>(), x.v)), where(x == infinite, x, outside));
}
template <class T>
RAPT_FN Lane<T> tanh(Lane<T> x) {
  return keep_nan<T>(x.v, hn::Tanh(Tag<T>(), x.v));
}
// One lane after the other, for what vectors cannot do; rare.
template <class T, class Function>
RAPT_FN Lane<T> each_lane(Lane<T> x, Lane<T> y, const Function& function) {
  T a[hn::MaxLanes(Tag<T>())], b[hn::MaxLanes(Tag<T>())];
  hn::StoreU(x.v, Tag<T>(), a);
  hn::StoreU(y.v, Tag<T>(), b);
  for (std::size_t n = 0; n < hn::Lanes(Tag<T>()); ++n) a[n] = function(a[n], b[n]);
  return hn::LoadU(Tag<T>(), a);
}
// Highway's sine and cosine reduce angles up to here; NaN and larger ones go to the C library, each by itself.
template <class T>
RAPT_FN Condition<T> is_small_angle(Lane<T> x) {
  return abs(x) <= Lane<T>(39000);
}
template <class T>
RAPT_FN Lane<T> sin(Lane<T> x) {
  const Condition<T> small = is_small_angle(x);
  const Lane<T> inside = hn::Sin(Tag<T>(), hn::IfThenElseZero(small.mask, x.v));
  if (hn::AllTrue(Tag<T>(), small.mask)) return inside;
  return where(small, inside, each_lane(x, x, [](T a, T) { return std::sin(a); }));
}
template <class T>
RAPT_FN Lane<T> cos(Lane<T> x) {
  const Condition<T> small = is_small_angle(x);
  const Lane<T> inside = hn::Cos(Tag<T>(), hn::IfThenElseZero(small.mask, x.v));
  if (hn::AllTrue(Tag<T>(), small.mask)) return inside;
  return where(small, inside, each_lane(x, x, [](T a, T) { return std::cos(a); }));
}

// e^(y·log a) for a > 0 in the range of f32.
RAPT_FN Vec<double> positive_power(Vec<double> a, Vec<double> y) {
  const Tag<double> tag;
  const auto exponent = hn::Mul(y, hn::Log(tag, a));
  return hn::Exp(tag, hn::Max(hn::Set(tag, -706.0), hn::Min(hn::Set(tag, 706.0), exponent)));
}
RAPT_FN Lane<double> pow(Lane<double> x, Lane<double> y) {
  return each_lane(x, y, [](double a, double b) { return std::pow(a, b); });
}
// Halves in double, where the product y·log|x| keeps all digits that f32 needs.
RAPT_FN Lane<float> pow(Lane<float> x, Lane<float> y) {
  const Tag<float> tag;
  const Tag<double> wide;
  const hn::Half<Tag<float>> half;
  const auto a = hn::Abs(x.v);
  const auto low =
      positive_power(hn::PromoteTo(wide, hn::LowerHalf(half, a)), hn::PromoteTo(wide, hn::LowerHalf(half, y.v)));
  const auto high =
      positive_power(hn::PromoteTo(wide, hn::UpperHalf(half, a)), hn::PromoteTo(wide, hn::UpperHalf(half, y.v)));
  const Lane<float> size(hn::Combine(tag, hn::DemoteTo(half, high), hn::DemoteTo(half, low)));
  // The cases of the C library, the later ones first.
  const Lane<float> length(a), none(0), one(1), infinite(HUGE_VALF);
  const auto whole = floor(y) == y;
  const auto odd = whole && !(floor(y * 0.5F) * 2 == y);
  Lane<float> power =
      where(length == none || length == infinite,
            where((length == none && y < none) || (length == infinite && none < y), infinite, none), size);
  power = where(length == one, one, power);
  power = where(odd, Lane<float>(hn::CopySign(power.v, x.v)), power);
  power = where(x < none && !whole && !(length == infinite), Lane<float>(NAN), power);
  power = where(y == y && x == x, power, x + y);
  return where(y == none || x == one, one, power);
}

template <class T>
RAPT_FN Lane<T> mul_add(Lane<T> a, Lane<T> b, Lane<T> c) {
  return hn::MulAdd(a.v, b.v, c.v);
}

// One Newton step on the hardware's estimate: close to a division's accuracy, at a third of its cost.
RAPT_FN Lane<float> reciprocal(Lane<float> x) {
  Vec<float> r = hn::ApproximateReciprocal(x.v);
#if HWY_ARCH_ARM  // its estimate has half as many digits
  r = hn::MulAdd(r, hn::NegMulAdd(r, x.v, hn::Set(Tag<float>(), 1.0F)), r);
#endif
  return hn::MulAdd(r, hn::NegMulAdd(r, x.v, hn::Set(Tag<float>(), 1.0F)), r);
}
RAPT_FN Lane<double> reciprocal(Lane<double> x) { return Lane<double>(1) / x; }

using rapt::tanh_and_slope;
// Each within two units in its own last place.
RAPT_FN ValueAndSlope<Lane<float>> tanh_and_slope(Lane<float> x) {
  const Tag<float> tag;
  const Vec<float> one = hn::Set(tag, 1.0F), size = hn::Abs(x.v);
  // x + x³·P(x²).
  const Vec<float> z = hn::Mul(x.v, x.v);
  Vec<float> p = hn::MulAdd(z, hn::Set(tag, -0.005704985013012359F), hn::Set(tag, 0.02063908549462755F));
  p = hn::MulAdd(p, z, hn::Set(tag, -0.05373971455389345F));
  p = hn::MulAdd(p, z, hn::Set(tag, 0.13331442191803905F));
  p = hn::MulAdd(p, z, hn::Set(tag, -0.33333281941773063F));
  const Vec<float> t = hn::MulAdd(hn::Mul(p, z), x.v, x.v);
  const Vec<float> slope = hn::NegMulAdd(t, t, one);
  const auto small = hn::Lt(size, hn::Set(tag, 0.625F));
  if (hn::AllTrue(tag, small)) return {t, slope};
  // With e = e^(−2|x|): 1 − 2e/(1 + e) and 4e/(1 + e)², which is nothing past 43.5.
  const Vec<float> most = hn::Set(tag, 43.5F);
  const Vec<float> e = exp(Lane<float>(hn::Mul(hn::Min(size, most), hn::Set(tag, -2.0F)))).v;
  const Vec<float> r = reciprocal(Lane<float>(hn::Add(one, e))).v;
  const Vec<float> part = hn::Mul(hn::Add(e, e), r);
  const Vec<float> far = hn::IfThenElseZero(hn::Lt(size, most), hn::Mul(hn::Add(part, part), r));
  const Vec<float> large = hn::CopySign(hn::Sub(one, part), x.v);
  return {keep_nan<float>(x.v, hn::IfThenElse(small, t, large)),
          keep_nan<float>(x.v, hn::IfThenElse(small, slope, far))};
}
RAPT_FN Lane<float> tanh(Lane<float> x) { return tanh_and_slope(x).value; }

// The blocks of four lanes, added up.
template <class X>
RAPT_FN auto sum_of_blocks(X x) {
  const hn::DFromV<X> tag;
  if constexpr (hn::MaxLanes(tag) <= 4) return x;
  else {
    const hn::Half<hn::DFromV<X>> half;
    return sum_of_blocks(hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)));
  }
}

// Four sums by one tree of additions: every block of four lanes is transposed on the way.
RAPT_FN void add_four_sums(Vec<float> a, Vec<float> b, Vec<float> c, Vec<float> d, float* to) {
  const Tag<float> tag;
  const hn::Repartition<double, Tag<float>> pairs;
  const auto fold = [&](Vec<float> x, Vec<float> y) {
    return hn::BitCast(pairs, hn::Add(hn::InterleaveLower(tag, x, y), hn::InterleaveUpper(tag, x, y)));
  };
  const auto low = fold(a, b);
  const auto high = fold(c, d);
  const auto sums = hn::Add(hn::BitCast(tag, hn::InterleaveLower(pairs, low, high)),
                            hn::BitCast(tag, hn::InterleaveUpper(pairs, low, high)));
  const hn::FixedTag<float, 4> four;
  hn::StoreU(hn::Add(hn::LoadU(four, to), sum_of_blocks(sums)), four, to);
}

}  // namespace rapt::inline v1::RAPT_TARGET

namespace rapt::inline v1 {

template <class T>
struct Lanes<RAPT_TARGET::Lane<T>> {
  using Scalar = T;
  using V = RAPT_TARGET::Lane<T>;
  static constexpr int count = static_cast<int>(RAPT_TARGET::hn::MaxLanes(RAPT_TARGET::Tag<T>()));
  static constexpr int registers = RAPT_TARGET::kRegisters;
  RAPT_FN static V load(const T* p) { return RAPT_TARGET::hn::LoadU(RAPT_TARGET::Tag<T>(), p); }
  RAPT_FN static void store(V v, T* p) { RAPT_TARGET::hn::StoreU(v.v, RAPT_TARGET::Tag<T>(), p); }
  RAPT_FN static V iota(T start) { return RAPT_TARGET::hn::Iota(RAPT_TARGET::Tag<T>(), start); }
  RAPT_FN static T sum(V v) {
    return RAPT_TARGET::hn::GetLane(RAPT_TARGET::hn::SumOfLanes(RAPT_TARGET::Tag<T>(), v.v));
  }
  // to[n] += the sum of v[n]
  RAPT_FN static void add_sums(const V (&v)[4], T* to) {
    if constexpr (sizeof(T) == 4) RAPT_TARGET::add_four_sums(v[0].v, v[1].v, v[2].v, v[3].v, to);
    else
      for (int n = 0; n < 4; ++n) to[n] += sum(v[n]);
  }
};

}  // namespace rapt::inline v1
