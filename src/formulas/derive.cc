#include "formulas/derive.h"

#include <numbers>

namespace rapt::inline v1::formulas {
namespace {

bool has_gradient(Op op) {
  switch (op) {
    case Op::raw:
    case Op::value:
    case Op::relative:
    case Op::table:
    case Op::pair_q:
    case Op::pair_k:
    case Op::pair_w: return true;
    default: return false;
  }
}

// Backwards through the graph. Where a node is the same for many pairs, their gradients are added up first, so that the
// rest of the way is walked once for all of them. A gradient of 0 stays 0 whatever the slope is: hidden pairs add nothing.
class Reverse {
 public:
  Reverse(Graph& graph, NodeId root) : graph_(graph), root_(root) {
    const auto count = static_cast<std::size_t>(root) + 1;
    gradients_.assign(count, kNone);
    leads_.assign(count, false);
    for (NodeId id = 0; id <= root; ++id) {
      const Node& node = graph[id];
      bool leads = has_gradient(node.op);
      const bool passes = !node.condition && node.op != Op::table;
      for (const NodeId child : node.children)
        leads = leads || (passes && child != kNone && leads_[static_cast<std::size_t>(child)]);
      leads_[static_cast<std::size_t>(id)] = leads;
    }
  }

  std::vector<Derivative> run() {
    std::vector<Derivative> result;
    add(root_, graph_.leaf(Op::grad));
    for (NodeId id = root_; id >= 0; --id) {
      const NodeId gradient = gradients_[static_cast<std::size_t>(id)];
      if (gradient == kNone) continue;
      graph_.set_place(graph_[id].place);
      if (has_gradient(graph_[id].op)) result.push_back({id, gradient});
      else pass(id, gradient);
    }
    return result;
  }

 private:
  void add(NodeId to, NodeId gradient) {
    if (to == kNone || !leads_[static_cast<std::size_t>(to)]) return;
    NodeId& sum = gradients_[static_cast<std::size_t>(to)];
    const NodeId own = graph_.reduce(gradient, graph_[to].level);
    sum = sum == kNone ? own : graph_.binary(Op::add, sum, own);
  }

  NodeId times(NodeId gradient, NodeId slope) { return graph_.binary(Op::live_multiply, gradient, slope); }
  NodeId number(double x) { return graph_.number(x); }
  NodeId multiply(NodeId a, NodeId b) { return graph_.binary(Op::multiply, a, b); }
  NodeId subtract(NodeId a, NodeId b) { return graph_.binary(Op::subtract, a, b); }
  NodeId divide(NodeId a, NodeId b) { return graph_.binary(Op::divide, a, b); }
  NodeId negate(NodeId a) { return graph_.unary(Op::negate, a); }
  NodeId keep(NodeId condition, NodeId a) { return graph_.binary(Op::keep, condition, a); }
  NodeId opposite(NodeId condition) { return graph_.unary(Op::logical_not, condition); }

  void pass(NodeId y, NodeId g) {
    const Node node = graph_[y];
    const auto [a, b, c] = node.children;
    const auto leads = [&](NodeId id) { return id != kNone && leads_[static_cast<std::size_t>(id)]; };
    switch (node.op) {
      case Op::negate: add(a, negate(g)); break;
      case Op::absolute: add(a, times(g, graph_.unary(Op::sign, a))); break;
      case Op::exp: add(a, times(g, y)); break;
      case Op::log: add(a, times(g, divide(number(1), a))); break;
      case Op::sqrt: add(a, times(g, divide(number(0.5), y))); break;
      case Op::tanh: add(a, times(g, subtract(number(1), multiply(y, y)))); break;
      case Op::sigmoid: add(a, times(g, multiply(y, subtract(number(1), y)))); break;
      case Op::erf: {  // 2/√π · e^(−a²)
        const NodeId bell = graph_.unary(Op::exp, negate(multiply(a, a)));
        add(a, times(g, multiply(number(2 * std::numbers::inv_sqrtpi), bell)));
        break;
      }
      case Op::sin: add(a, times(g, graph_.unary(Op::cos, a))); break;
      case Op::cos: add(a, times(g, negate(graph_.unary(Op::sin, a)))); break;
      case Op::add:
        add(a, g);
        add(b, g);
        break;
      case Op::subtract:
        add(a, g);
        if (leads(b)) add(b, negate(g));
        break;
      case Op::multiply:
        if (a == b) {
          add(a, times(g, multiply(number(2), a)));
          break;
        }
        if (leads(a)) add(a, times(g, b));
        if (leads(b)) add(b, times(g, a));
        break;
      case Op::divide:
        if (leads(a)) add(a, times(g, divide(number(1), b)));
        if (leads(b)) add(b, times(g, negate(divide(y, b))));
        break;
      case Op::minimum:
      case Op::maximum: {
        // The operand that was returned; of two equal ones the first.
        const NodeId second = node.op == Op::minimum ? graph_.binary(Op::less, b, a) : graph_.binary(Op::less, a, b);
        if (leads(a)) add(a, keep(opposite(second), g));
        if (leads(b)) add(b, keep(second, g));
        break;
      }
      case Op::power: {
        if (leads(a)) {
          NodeId slope = multiply(b, graph_.binary(Op::power, a, subtract(b, number(1))));
          if (graph_[b].op != Op::number)
            slope = graph_.where(graph_.binary(Op::equal, b, number(0)), number(0), slope);
          add(a, times(g, slope));
        }
        if (leads(b)) {
          const NodeId zero = graph_.binary(Op::equal, y, number(0));
          add(b, times(g, graph_.where(zero, number(0), multiply(y, graph_.unary(Op::log, a)))));
        }
        break;
      }
      case Op::where:
        if (leads(b)) add(b, keep(a, g));
        if (leads(c)) add(c, keep(opposite(a), g));
        break;
      default: break;  // steps and conditions have no slope
    }
  }

  Graph& graph_;
  NodeId root_;
  std::vector<NodeId> gradients_;
  std::vector<bool> leads_;
};

}  // namespace

std::vector<Derivative> derive(Graph& graph, NodeId root) { return Reverse(graph, root).run(); }

}  // namespace rapt::inline v1::formulas
