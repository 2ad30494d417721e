#include "formulas/interval.h"

#include <algorithm>

namespace rapt::inline v1::formulas {
namespace {

constexpr double kWhole = 16777216;  // 2^24: whole numbers up to here are exact in f32

// Kernels round in their own type: what is not whole may be off by some last places of f32.
Interval rounded(Interval x) {
  if (std::isnan(x.low) || std::isnan(x.high)) return Interval::everything();
  x.whole = x.whole && std::abs(x.low) < kWhole && std::abs(x.high) < kWhole;
  if (x.whole) return x;
  constexpr double kRounding = 1e-6, kTiny = 1e-37;
  x.low -= std::abs(x.low) * kRounding + kTiny;
  x.high += std::abs(x.high) * kRounding + kTiny;
  // What f64 holds may be infinite in f32.
  constexpr double kLargest = 3.4e38;
  if (x.high > kLargest) x.high = HUGE_VAL;
  if (x.low < -kLargest) x.low = -HUGE_VAL;
  return x;
}

bool is_power_of_two(const Interval& x) {
  int exponent = 0;
  return x.is_point() && std::abs(std::frexp(x.low, &exponent)) == 0.5;
}

// `exact`: the results are those of any type.
template <class F>
Interval corners(const Interval& a, const Interval& b, bool whole, bool exact, F&& f) {
  const double all[] = {f(a.low, b.low), f(a.low, b.high), f(a.high, b.low), f(a.high, b.high)};
  Interval y{all[0], all[0], whole && a.whole && b.whole, a.may_fail || b.may_fail};
  for (const double x : all) {
    if (std::isnan(x)) return Interval::everything();
    y.low = std::min(y.low, x);
    y.high = std::max(y.high, x);
  }
  return exact ? y : rounded(y);
}

Interval rising(Op op, const Interval& a, double from) {
  if (!(a.low >= from)) return Interval::everything();
  return rounded({apply(op, a.low, 0, 0), apply(op, a.high, 0, 0), false, a.may_fail});
}

Interval compare(const Interval& a, const Interval& b, Op op) {
  // NaN compares as false.
  const double surely = a.may_fail || b.may_fail ? 0 : 1;
  const bool strict = op == Op::less;
  if (strict ? a.high < b.low : a.high <= b.low) return {surely, 1, true, false};
  if (strict ? a.low >= b.high : a.low > b.high) return {0, 0, true, false};
  return Interval::unknown_condition();
}

// A quotient that is not only floored differs from type to type.
Interval settled(const Interval& x) { return x.quotient ? rounded({x.low, x.high, false, x.may_fail}) : x; }

Interval apply_settled(const Node& node, const Interval& a, const Interval& b, const Interval& c) {
  const bool fails = a.may_fail || b.may_fail;
  switch (node.op) {
    case Op::negate: return {-a.high, -a.low, a.whole, a.may_fail};
    case Op::absolute: {
      const double far = std::max(std::abs(a.low), std::abs(a.high));
      const double near = a.low <= 0 && a.high >= 0 ? 0 : std::min(std::abs(a.low), std::abs(a.high));
      return {near, far, a.whole, a.may_fail};
    }
    case Op::sign: return {apply(Op::sign, a.low, 0, 0), apply(Op::sign, a.high, 0, 0), true, a.may_fail};
    case Op::floor: return rounded({std::floor(a.low), std::floor(a.high), true, a.may_fail});
    case Op::log:
    case Op::sqrt: return rising(node.op, a, 0);
    case Op::exp:
    case Op::tanh:
    case Op::sigmoid:
    case Op::erf: return rising(node.op, a, -HUGE_VAL);
    case Op::sin:
    case Op::cos: {
      const bool infinite = std::isinf(a.low) || std::isinf(a.high);
      if (!a.is_point()) return {-1, 1, false, a.may_fail || infinite};
      const double y = apply(node.op, a.low, 0, 0);
      return {std::max(-1.0, y - 1e-5), std::min(1.0, y + 1e-5), false, std::isnan(y)};
    }
    case Op::add: return rounded({a.low + b.low, a.high + b.high, a.whole && b.whole, fails});
    case Op::subtract: return rounded({a.low - b.high, a.high - b.low, a.whole && b.whole, fails});
    case Op::multiply: {
      const bool exact = (is_power_of_two(a) && b.whole) || (is_power_of_two(b) && a.whole);
      Interval y = corners(a, b, true, exact, [](double u, double v) { return u * v; });
      // A square is not negative.
      if (node.children[0] == node.children[1] && !y.may_fail) y.low = std::max(y.low, 0.0);
      return y;
    }
    case Op::divide:
      if (b.low <= 0 && b.high >= 0) return Interval::everything();
      if (a.whole && b.whole && !is_power_of_two(b)) {
        Interval y = corners(a, b, false, true, [](double u, double v) { return u / v; });
        y.quotient = true;
        return y;
      }
      return corners(a, b, false, a.whole && b.whole, [](double u, double v) { return u / v; });
    case Op::minimum: return {std::min(a.low, b.low), std::min(a.high, b.high), a.whole && b.whole, fails};
    case Op::maximum: return {std::max(a.low, b.low), std::max(a.high, b.high), a.whole && b.whole, fails};
    case Op::power:
      if (!(a.low > 0)) return Interval::everything();
      return corners(a, b, false, false, [](double u, double v) { return std::pow(u, v); });
    case Op::less:
    case Op::less_equal: return compare(a, b, node.op);
    case Op::equal:
      // A number is equal to itself, unless it is NaN.
      if (node.children[0] == node.children[1]) return {a.may_fail ? 0.0 : 1.0, 1, true, false};
      if (a.high < b.low || b.high < a.low) return {0, 0, true, false};
      if (a.is_point() && b.is_point() && a.whole && b.whole) return {1, 1, true, false};
      return Interval::unknown_condition();
    case Op::logical_not: return {1 - a.high, 1 - a.low, true, false};
    case Op::logical_and: return {std::min(a.low, b.low), std::min(a.high, b.high), true, false};
    case Op::logical_or: return {std::max(a.low, b.low), std::max(a.high, b.high), true, false};
    case Op::where:
      if (a.low == a.high) return a.low != 0 ? b : c;
      return {std::min(b.low, c.low), std::max(b.high, c.high), b.whole && c.whole, b.may_fail || c.may_fail};
    default: return Interval::everything();
  }
}

}  // namespace

Interval Interval::of(double low, double high) {
  const bool whole =
      low == std::floor(low) && high == std::floor(high) && std::abs(low) < kWhole && std::abs(high) < kWhole;
  const bool exact = low == high && static_cast<double>(static_cast<float>(low)) == low;
  const Interval x{low, high, whole, std::isnan(low)};
  return exact ? x : rounded(x);
}

Interval apply(const Node& node, const Interval& a, const Interval& b, const Interval& c) {
  if (node.op == Op::floor) return apply_settled(node, a, b, c);
  return apply_settled(node, settled(a), settled(b), settled(c));
}

IntervalEvaluator::IntervalEvaluator(const Graph& graph, NodeId root) {
  const NodeId roots[] = {root};
  const std::vector<bool> needed = graph.reachable(roots);
  std::vector<int> at(static_cast<std::size_t>(graph.size()), -1);
  for (NodeId id = 0; id <= root; ++id) {
    const auto n = static_cast<std::size_t>(id);
    if (!needed[n]) continue;
    Step step{.node = graph[id]};
    for (std::size_t k = 0; k < 3; ++k)
      if (graph[id].children[k] != kNone) step.inputs[k] = at[static_cast<std::size_t>(graph[id].children[k])];
    at[n] = static_cast<int>(steps_.size());
    steps_.push_back(step);
  }
  if (steps_.size() > kMost) steps_.clear();
}

}  // namespace rapt::inline v1::formulas
