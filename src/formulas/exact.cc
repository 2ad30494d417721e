#include "formulas/exact.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "formulas/interval.h"

namespace rapt::inline v1::formulas {
namespace {

// What is known about a node's numbers over a whole call.
struct Reach {
  Interval bounds;
  // All numbers are multiples of it, exact as long as they have digits enough; 0: they are rounded anyway.
  double step = 0;
  bool quotient = false;  // of such numbers, rounded once: its floor is exact
  // Numbers below it are exact; larger ones are computed as at least that large, with the right sign.
  double trust = HUGE_VAL;
  double seen = 0;  // the largest whole number on the way there

  double largest() const { return std::max(std::abs(bounds.low), std::abs(bounds.high)); }
  bool is_lost() const { return !(trust > 0); }
  bool is_exactable() const { return step > 0 || quotient; }
};

constexpr double kOverflow = 1e38;  // f32 has no larger ones, and infinity times 0 is not a number

double digits_of(bool is_double) { return is_double ? 0x1p53 : 0x1p24; }

// Numbers of that step are rounded once they need more digits.
Reach in_digits(Reach x, double most) {
  // Bounds may include room for rounding; no multiple of the step is below this one.
  if (x.step > 0 && std::isfinite(x.bounds.low)) x.bounds.low = std::ceil(x.bounds.low / x.step) * x.step;
  if (x.step > 0 && x.largest() >= most * x.step) x.trust = std::min(x.trust, most * x.step);
  if (x.step > 0 && !(x.largest() < kOverflow)) x.trust = 0;
  if (x.largest() < x.trust) x.trust = HUGE_VAL;
  return x;
}

Reach whole(double low, double high, double most) {
  return in_digits({Interval::of(low, high), 1, false, HUGE_VAL}, most);
}

// A multiple of 2^-20 that the type holds is as good as a whole number.
Reach constant(double value, double most) {
  Reach x{Interval::of(value, value), 0, false, HUGE_VAL};
  if (std::isinf(value)) x.step = 1;
  for (double step = 1; step >= 0x1p-20 && x.step == 0; step /= 2)
    if (std::floor(value / step) == value / step) x.step = step;
  const bool held = most > 0x1p24 || static_cast<double>(static_cast<float>(value)) == value;
  return held ? x : in_digits(x, most);
}

Reach approximate(const Interval& bounds, bool lost) { return {bounds, 0, false, lost ? 0 : HUGE_VAL}; }

// Of a sum: if the parts have one sign, it is at least as large as each of them.
double trust_of_sum(const Reach& a, const Reach& b, bool one_sign) {
  const double least = std::min(a.trust, b.trust);
  if (one_sign || std::isinf(least)) return least;
  if (std::isinf(b.trust)) return a.trust - b.largest();
  return std::isinf(a.trust) ? b.trust - a.largest() : 0;
}

Reach sum(Op op, const Interval& bounds, const Reach& a, const Reach& b, double most) {
  const bool adds = op == Op::add;
  Reach x{bounds, std::min(a.step, b.step), false, HUGE_VAL};
  // Nothing is rounded here, so bounds need no room for it.
  x.bounds.low = a.bounds.low + (adds ? b.bounds.low : -b.bounds.high);
  x.bounds.high = a.bounds.high + (adds ? b.bounds.high : -b.bounds.low);
  const bool rise = a.bounds.low >= 0 && (adds ? b.bounds.low >= 0 : b.bounds.high <= 0);
  const bool fall = a.bounds.high <= 0 && (adds ? b.bounds.high <= 0 : b.bounds.low >= 0);
  x.trust = trust_of_sum(a, b, rise || fall);
  return in_digits(x, most);
}

Reach product(const Interval& bounds, const Reach& a, const Reach& b, double most) {
  // Factors other than 0 are at least one step.
  Reach x{bounds, a.step * b.step, false, std::min(a.trust * b.step, b.trust * a.step)};
  const std::array corners{a.bounds.low * b.bounds.low, a.bounds.low * b.bounds.high, a.bounds.high * b.bounds.low,
                           a.bounds.high * b.bounds.high};
  if (std::ranges::all_of(corners, [](double y) { return std::isfinite(y); })) {
    x.bounds.low = std::max(bounds.low, *std::ranges::min_element(corners));
    x.bounds.high = std::min(bounds.high, *std::ranges::max_element(corners));
  }
  return in_digits(x, most);
}

Reach quotient(const Interval& bounds, const Reach& a, const Reach& b) {
  Reach x{bounds, 0, true, HUGE_VAL};
  const bool over_zero = b.bounds.low <= 0 && b.bounds.high >= 0;
  if (std::isfinite(a.trust)) x.trust = over_zero || std::isfinite(b.trust) ? 0 : a.trust / b.largest();
  // A fraction smaller than 1, with the right sign, whatever the divisor is.
  else if (std::isfinite(b.trust) && a.largest() >= b.trust) x.trust = 0;
  if (x.largest() < x.trust) x.trust = HUGE_VAL;
  return x;
}

bool is_infinite(const Reach& x) { return x.bounds.low == x.bounds.high && std::isinf(x.bounds.low); }

Reach operation(const Node& node, const Reach& a, const Reach& b, const Reach& c, double most) {
  const Interval bounds = apply(node, a.bounds, b.bounds, c.bounds);
  const bool binary = node.children[1] != kNone;
  const bool lost = a.is_lost() || (binary && b.is_lost()) || (node.children[2] != kNone && c.is_lost());
  const double step = binary ? std::min(a.step, b.step) : a.step;
  const double trust = binary ? std::min(a.trust, b.trust) : a.trust;
  switch (node.op) {
    case Op::negate:
    case Op::absolute: return {bounds, a.step, a.quotient, a.trust};
    case Op::sign: return {bounds, 1, false, lost ? 0 : HUGE_VAL};
    case Op::floor:
      if (a.is_exactable()) return in_digits({bounds, 1, false, a.trust - 1}, most);
      // Whole, but no more exact than what was rounded down.
      return bounds.whole ? Reach{bounds, 1, false, lost ? 0 : HUGE_VAL} : approximate(bounds, lost);
    case Op::add:
    case Op::subtract: return step > 0 && !lost ? sum(node.op, bounds, a, b, most) : approximate(bounds, lost);
    case Op::multiply: return step > 0 && !lost ? product(bounds, a, b, most) : approximate(bounds, lost);
    case Op::divide: return step > 0 && !lost ? quotient(bounds, a, b) : approximate(bounds, lost);
    case Op::minimum:
    case Op::maximum: {
      const bool quotient = step == 0 && a.is_exactable() && b.is_exactable();
      Reach x{bounds, step, quotient, trust};
      if (x.largest() < x.trust) x.trust = HUGE_VAL;
      return x;
    }
    case Op::where: {
      // Results made of infinity are never rounded: as an index they are meant to be outside.
      if (is_infinite(b) || is_infinite(c)) {
        Reach x = is_infinite(b) ? c : b;
        if (lost) x.trust = 0;
        return x;
      }
      Reach x{bounds, std::min(b.step, c.step), false, lost ? 0 : std::min(b.trust, c.trust)};
      x.quotient = x.step == 0 && b.is_exactable() && c.is_exactable();
      if (x.largest() < x.trust) x.trust = HUGE_VAL;
      return x;
    }
    case Op::less:
    case Op::less_equal:
    case Op::equal:
    case Op::logical_not:
    case Op::logical_and:
    case Op::logical_or: return {bounds, 1, false, lost ? 0 : HUGE_VAL};
    // Their results follow the argument's rounding, not its size.
    case Op::sqrt:
    case Op::sin:
    case Op::cos: return approximate(bounds, lost || std::isfinite(a.trust));
    default: return approximate(bounds, lost);
  }
}

bool is_comparison(Op op) { return op == Op::less || op == Op::less_equal || op == Op::equal; }

// Whether rounding may change what a comparison says.
bool is_doubtful(const Reach& a, const Reach& b) {
  if (a.is_lost() || b.is_lost()) return true;
  if (!a.is_exactable() || !b.is_exactable()) return false;
  if (std::isinf(a.trust)) return std::isfinite(b.trust) && !(a.largest() < b.trust);
  return std::isfinite(b.trust) || !(b.largest() < a.trust);
}

std::string text_of(double value) {
  return std::abs(value) < 1e18 ? std::to_string(static_cast<std::int64_t>(value)) : "10^18 and more";
}

}  // namespace

Choices::Choices(const Graph& graph, std::span<const NodeId> roots, std::vector<std::string> names)
    : names_(std::move(names)) {
  const std::vector<bool> needed = graph.reachable(roots);
  std::vector<NodeId> chosen;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    if (!needed[static_cast<std::size_t>(id)]) continue;
    if (is_comparison(node.op) || (node.op == Op::table && node.children[0] != kNone)) chosen.push_back(id);
  }
  const std::vector<bool> kept = graph.reachable(chosen);
  std::vector<int> at(static_cast<std::size_t>(graph.size()), -1);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!kept[static_cast<std::size_t>(id)]) continue;
    Step step{.node = graph[id]};
    const bool sums = !is_leaf(step.node.op) && !is_comparison(step.node.op);
    for (std::size_t k = 0; k < 3; ++k) {
      if (graph[id].children[k] == kNone) continue;
      step.inputs[k] = at[static_cast<std::size_t>(graph[id].children[k])];
      Step& input = steps_[static_cast<std::size_t>(step.inputs[k])];
      input.is_summed = input.is_summed || sums;
    }
    at[static_cast<std::size_t>(id)] = static_cast<int>(steps_.size());
    steps_.push_back(step);
  }
}

template <class F>
void Choices::evaluate(const CallRanges& call, F&& each) const {
  const double most = digits_of(call.is_double);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return whole(static_cast<double>(low), static_cast<double>(high), most);
  };
  const auto parameter = [&](const std::optional<NumberRange>& range) {
    if (!range) return approximate(Interval::everything(), false);
    if (range->is_whole) return whole(range->low, range->high, most);
    return approximate(Interval::of(range->low, range->high), false);
  };
  const auto leaf = [&](const Step& step) {
    switch (step.node.op) {
      case Op::number: return constant(step.node.value, most);
      case Op::query: return between(call.query[0], call.query[1]);
      case Op::key: return between(call.key[0], call.key[1]);
      case Op::offset: return between(call.key[0] - call.query[1], call.key[1] - call.query[0]);
      case Op::head: return between(call.head[0], call.head[1]);
      case Op::batch: return between(call.batch[0], call.batch[1]);
      case Op::queries: return between(call.queries, call.queries);
      case Op::keys: return between(call.keys, call.keys);
      case Op::query_row:
      case Op::key_row: return between(0, call.grid[0] - 1);
      case Op::query_col:
      case Op::key_col: return between(0, call.grid[1] - 1);
      case Op::value: return parameter(call.value(step.node.index));
      case Op::table:
        if (step.is_summed) return parameter(call.table(step.node.index));
        return approximate(Interval::everything(), false);
      default: return approximate(Interval::everything(), false);
    }
  };
  std::vector<Reach> reach(steps_.size());
  const auto input = [&](const Step& step, std::size_t k) {
    return step.inputs[k] < 0 ? Reach{} : reach[static_cast<std::size_t>(step.inputs[k])];
  };
  for (std::size_t n = 0; n < steps_.size(); ++n) {
    const Step& step = steps_[n];
    const Reach a = input(step, 0), b = input(step, 1), c = input(step, 2);
    reach[n] = is_leaf(step.node.op) ? leaf(step) : operation(step.node, a, b, c, most);
    reach[n].seen = reach[n].step > 0 ? reach[n].largest() : 0;
    if (step.node.op != Op::table) reach[n].seen = std::max({reach[n].seen, a.seen, b.seen, c.seen});
    if (!each(step, std::array{a, b, c})) return;
  }
}

std::string Choices::inexact(const CallRanges& call) const {
  const std::string bounds = "whole numbers within ±" + text_of(digits_of(call.is_double)) + ", which are exact" +
                             (call.is_double ? "" : " outside f64");
  std::string wrong;
  evaluate(call, [&](const Step& step, const std::array<Reach, 3>& inputs) {
    const auto& [a, b, c] = inputs;
    if (is_comparison(step.node.op) && is_doubtful(a, b))
      wrong = "expected comparisons of " + bounds + ", got them of numbers up to " + text_of(std::max(a.seen, b.seen));
    if (step.node.op != Op::table) return wrong.empty();
    const std::array<std::int64_t, 2> size = call.table_size(step.node.index);
    for (std::size_t k = 0; k < 2; ++k) {
      const Reach& index = inputs[k];
      if (step.inputs[k] < 0 || index.trust >= static_cast<double>(size[k])) continue;
      if (!index.is_lost() && !index.is_exactable()) continue;
      const std::string& name = names_[static_cast<std::size_t>(step.node.index)];
      wrong = "expected an index of '" + name + "' from " + bounds + ", got one from numbers up to " +
              text_of(index.seen) + "; " + name + "[x,y] takes it in two parts";
    }
    return wrong.empty();
  });
  return wrong;
}

std::array<NumberRange, 2> Choices::reads(const CallRanges& call, int table) const {
  std::array<NumberRange, 2> range;
  evaluate(call, [&](const Step& step, const std::array<Reach, 3>& inputs) {
    for (std::size_t k = 0; k < 2; ++k) {
      if (step.node.op != Op::table || step.node.index != table || step.inputs[k] < 0) continue;
      range[k].low = std::min(range[k].low, inputs[k].bounds.low);
      range[k].high = std::max(range[k].high, inputs[k].bounds.high);
    }
    return true;
  });
  return range;
}

}  // namespace rapt::inline v1::formulas
