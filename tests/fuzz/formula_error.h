#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "formulas/graph.h"

// How far a formula in f32 may be from exact arithmetic, for one pair: a bound that follows every rounding through the graph.
namespace formula_error {

using rapt::formulas::Graph;
using rapt::formulas::Node;
using rapt::formulas::NodeId;
using rapt::formulas::Op;

struct Bounded {
  double value = 0, error = 0;
};

// Values of a graph's nodes; `sure` is false once a step (a comparison, a floor, a place in a table) may fall to either side.
struct Evaluation {
  std::vector<Bounded> values;
  bool sure = true;
};

inline constexpr double kEps = 4 * 0x1p-24;  // a function's own error included

inline Bounded operation(const Node& node, const Bounded& a, const Bounded& b, const Bounded& c, bool& sure) {
  const double value = rapt::formulas::apply(node.op, a.value, b.value, c.value), size = std::fabs(value);
  const bool exact = a.error == 0 && b.error == 0 && value == std::floor(value) && size < 0x1p24;
  const double own = kEps * size + 1e-37;
  const auto is_step = [&](double x, double error) {
    if (error > 0 && std::floor(x - error) != std::floor(x + error)) sure = false;
    return Bounded{value, 0};
  };
  const auto product = [](const Bounded& x, const Bounded& y) {
    return std::fabs(x.value) * y.error + std::fabs(y.value) * x.error + x.error * y.error;
  };
  switch (node.op) {
    case Op::negate:
    case Op::absolute: return {value, a.error};
    case Op::sign:
      if (a.error > 0 && std::fabs(a.value) <= a.error) sure = false;
      return {value, 0};
    case Op::floor: return is_step(a.value, a.error);
    case Op::exp: return {value, size * std::expm1(a.error) + own};
    case Op::log:
      if (a.value <= a.error) sure = false;
      return {value, a.error / (a.value - a.error) + own + kEps};
    case Op::sqrt:
      if (a.value < a.error || (a.value == a.error && a.error > 0)) sure = false;
      return {value, (a.error > 0 ? a.error / std::sqrt(a.value - a.error) : 0) + own};
    case Op::tanh:
    case Op::sigmoid:
    case Op::erf: return {value, 1.2 * a.error + kEps};
    case Op::sin:
    case Op::cos: return {value, a.error + kEps * (1 + std::fabs(a.value))};
    case Op::add:
    case Op::subtract: return {value, a.error + b.error + (exact ? 0 : own)};
    case Op::multiply:
    case Op::live_multiply: return {value, product(a, b) + (exact ? 0 : own)};
    case Op::divide:
      if (std::fabs(b.value) <= b.error) sure = false;
      return {value, (a.error + size * b.error) / (std::fabs(b.value) - b.error) + own};
    case Op::minimum:
    case Op::maximum: return {value, std::max(a.error, b.error)};
    case Op::power:
      if (a.value <= a.error) sure = false;
      return {value,
              2 * size * (std::fabs(b.value) * a.error / (a.value - a.error) + std::fabs(std::log(a.value)) * b.error) +
                  4 * own * (1 + std::fabs(b.value * std::log(a.value)))};
    case Op::less:
    case Op::less_equal:
    case Op::equal:
      if (a.error + b.error > 0 && std::fabs(a.value - b.value) <= a.error + b.error) sure = false;
      return {value, 0};
    case Op::where: return {value, a.value != 0 ? b.error : c.error};
    case Op::keep: return {value, b.error};
    case Op::logical_not:
    case Op::logical_and:
    case Op::logical_or: return {value, 0};
    default: sure = false; return {value, 0};
  }
}

// leaf(node, row, col) gives what a leaf reads; a table's indices are whole already.
inline Evaluation evaluate(const Graph& graph, std::span<const NodeId> roots,
                           const std::function<Bounded(const Node&, double, double)>& leaf) {
  Evaluation e;
  e.values.resize(static_cast<std::size_t>(graph.size()));
  const std::vector<bool> needed = graph.reachable(roots);
  for (NodeId id = 0; id < graph.size() && e.sure; ++id) {
    const auto n = static_cast<std::size_t>(id);
    if (!needed[n]) continue;
    const Node& node = graph[id];
    const auto child = [&](std::size_t k) {
      return node.children[k] == rapt::formulas::kNone ? Bounded{}
                                                       : e.values[static_cast<std::size_t>(node.children[k])];
    };
    const Bounded a = child(0), b = child(1);
    Bounded& to = e.values[n];
    if (node.op == Op::number) {
      to = {node.value, std::fabs(node.value - static_cast<double>(static_cast<float>(node.value)))};
    } else if (node.op == Op::reduce) {
      to = a;
    } else if (rapt::formulas::is_leaf(node.op)) {
      for (const Bounded& index : {a, b})
        if (index.error > 0 && std::floor(index.value - index.error) != std::floor(index.value + index.error))
          e.sure = false;
      to = leaf(node, std::floor(a.value), std::floor(b.value));
    } else {
      to = operation(node, a, b, child(2), e.sure);
    }
    // Overflow in f32 and NaN are not compared.
    e.sure = e.sure && std::fabs(to.value) < 1e30 && to.error < 1e30;
  }
  return e;
}

}  // namespace formula_error
