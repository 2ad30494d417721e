#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "rapt/dual.h"
#include "rapt/hooks.h"
#include "rapt/numbers.h"

// The contract between a normaliser and the engine. A normaliser turns a row of scores into weights; it is a struct of
//
//   static constexpr std::string_view formula;        what `rapt list` prints
//   static constexpr Threshold threshold;             how a row's threshold τ is found, see below
//   N weight(N x, const P& p)                         the weight of x = score − τ; never negative, never decreasing
//   static constexpr double reach;                    solved: weight(0) = 0 and weight(reach) = 1
//   static constexpr std::array parameters{...};      none: ParameterSpec of role value, one number each; p[n] in weight()
//   static double absent(int n, std::int64_t keys)    what p[n] is where the caller gives none
//
// The slope of weight(), and so the whole backward pass, is derived. N is any number type, as in mechanisms.
namespace rapt::inline v1 {

// Declared here first, so that a file that opens rapt::normalizers need not name the ABI's namespace.
namespace normalizers {}

enum class Threshold : std::uint8_t {
  none,           // τ = 0: every weight is a function of its own score
  solved,         // τ makes the weights of a row sum to 1; weight() must be convex
  exponential,    // the same for weight(x) = e^x, in closed form: softmax
  first_largest,  // all weight on the first largest score: argmax
};

namespace detail {

template <class W> concept HasWeight = requires(const W& w, double x, const double* p) {
  { w.weight(x, p) } -> std::convertible_to<double>;
};
template <class W> concept HasWeightOfDuals = requires(const W& w, Dual<double, 2> x, const Dual<double, 2>* p) {
  { w.weight(x, p) } -> std::convertible_to<Dual<double, 2>>;
};

template <class W>
constexpr int normalizer_slots() {
  if constexpr (requires { W::parameters; }) return static_cast<int>(W::parameters.size());
  return 0;
}

template <class W>
constexpr bool one_number_each() {
  if constexpr (requires { W::parameters; })
    for (const ParameterSpec& p : W::parameters)
      if (p.role != Role::value || p.rank() != 0) return false;
  return true;
}

template <class W>
constexpr double weight_at(double x) {
  return W{}.weight(x, static_cast<const double*>(nullptr));
}

// Whether weight() is a constant expression; one that calls exp() or pow() is not, and is left to its tests.
template <class W> concept ConstantWeight = requires { typename std::bool_constant<(weight_at<W>(0.0) >= 0)>; };

// One sentence for each rule that is broken. Returns true, so that it can be a static_assert itself.
template <class W>
constexpr bool check_normalizer() {
  static_assert(
      requires {
        { W::formula } -> std::convertible_to<std::string_view>;
      },
      "rapt: normaliser: formula: expected `static constexpr std::string_view formula`");
  static_assert(
      requires {
        { W::threshold } -> std::convertible_to<Threshold>;
      },
      "rapt: normaliser: threshold: expected `static constexpr Threshold threshold`");
  static_assert(one_number_each<W>(),
                "rapt: normaliser: parameters: expected the role value without sizes: one number a head");
  static_assert(normalizer_slots<W>() <= kMaxSlots, "rapt: normaliser: parameters: expected at most kMaxSlots");
  if constexpr (W::threshold == Threshold::none || W::threshold == Threshold::solved) {
    static_assert(
        HasWeight<W> && HasWeightOfDuals<W>,
        "rapt: normaliser: weight: expected `template <class N, class P> constexpr N weight(N x, const P& p) const`");
    static_assert(normalizer_slots<W>() == 0 || W::threshold == Threshold::none,
                  "rapt: normaliser: parameters: expected none, except with Threshold::none");
    static_assert(
        normalizer_slots<W>() == 0 ||
            requires {
              { W::absent(0, std::int64_t{1}) } -> std::convertible_to<double>;
            },
        "rapt: normaliser: absent: expected `static double absent(int n, std::int64_t keys)` beside parameters");
  }
  if constexpr (W::threshold == Threshold::solved) {
    static_assert(
        requires {
          { W::reach } -> std::convertible_to<double>;
        },
        "rapt: normaliser: reach: expected `static constexpr double reach`, the x whose weight is 1, where τ is "
        "solved");
    if constexpr (ConstantWeight<W>) {
      static_assert(weight_at<W>(0) == 0 && weight_at<W>(-1) == 0,
                    "rapt: normaliser: weight: expected 0 for x up to 0, where τ is solved");
      static_assert(weight_at<W>(W::reach) > 1 - 1e-9 && weight_at<W>(W::reach) < 1 + 1e-9,
                    "rapt: normaliser: weight: expected 1 for x = reach, where τ is solved");
      static_assert(weight_at<W>(0.5 * W::reach) < 0.5 + 1e-9,
                    "rapt: normaliser: weight: expected a convex function, where τ is solved");
    }
  }
  return true;
}

}  // namespace detail
}  // namespace rapt::inline v1
