#include "formulas/unknown.h"

#include <limits>

namespace rapt::inline v1::formulas {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class Unknown {
 public:
  explicit Unknown(Graph& graph) : graph_(graph) {}

  NodeId of(NodeId root) {
    const NodeId roots[] = {root};
    const std::vector<bool> needed = graph_.reachable(roots);
    open_.assign(static_cast<std::size_t>(root) + 1, kNone);
    for (NodeId id = 0; id <= root; ++id)
      if (needed[static_cast<std::size_t>(id)]) open_[static_cast<std::size_t>(id)] = find(id);
    return open_.back();
  }

 private:
  NodeId open(NodeId id) const { return id == kNone ? kNone : open_[static_cast<std::size_t>(id)]; }
  NodeId either(NodeId a, NodeId b) {
    if (a == kNone || b == kNone) return a == kNone ? b : a;
    return graph_.binary(Op::logical_or, a, b);
  }
  NodeId both(NodeId a, NodeId b) { return graph_.binary(Op::logical_and, a, b); }
  NodeId opposite(NodeId a) { return graph_.unary(Op::logical_not, a); }

  NodeId find(NodeId id) {
    const Node node = graph_[id];
    const auto [a, b, c] = node.children;
    switch (node.op) {
      // NaN is not equal to itself. An index that is open reads NaN.
      case Op::table: return a == kNone ? kNone : opposite(graph_.binary(Op::equal, id, id));
      case Op::logical_and: return joined(a, b, true);
      case Op::logical_or: return joined(a, b, false);
      case Op::where: return either(open(a), chosen(a, open(b), open(c)));
      default: return either(open(a), either(open(b), open(c)));
    }
  }

  NodeId chosen(NodeId condition, NodeId a, NodeId b) {
    if (a == kNone && b == kNone) return kNone;
    const NodeId no = graph_.condition(false);
    return graph_.where(condition, a == kNone ? no : a, b == kNone ? no : b);
  }

  // A side that is known to be false settles `and`, one that is known to be true settles `or`.
  NodeId joined(NodeId a, NodeId b, bool is_and) {
    const NodeId any = either(open(a), open(b));
    if (any == kNone) return kNone;
    const auto unsettled = [&](NodeId x) { return either(open(x), is_and ? x : opposite(x)); };
    return both(any, both(unsettled(a), unsettled(b)));
  }

  Graph& graph_;
  std::vector<NodeId> open_;
};

}  // namespace

NodeId unknown(Graph& graph, NodeId root) { return root == kNone ? kNone : Unknown(graph).of(root); }

NodeId known_where(Graph& graph, NodeId condition, NodeId a, NodeId b) {
  const NodeId chosen = graph.where(condition, a, b);
  // Of two conditions: a reader of the one that is chosen finds it open by itself.
  const NodeId open = graph[chosen].condition ? kNone : unknown(graph, condition);
  return open == kNone ? chosen : graph.where(open, graph.number(kNaN), chosen);
}

NodeId hidden_score(Graph& graph, NodeId condition) {
  const NodeId score = graph.leaf(Op::raw), hidden = graph.number(-kInfinity);
  const NodeId seen = graph.where(condition, score, hidden);
  const NodeId open = unknown(graph, condition);
  if (open == kNone) return seen;
  const NodeId fails =
      graph.binary(Op::logical_and, open, graph.unary(Op::logical_not, graph.binary(Op::equal, score, hidden)));
  return graph.where(fails, graph.number(kNaN), seen);
}

}  // namespace rapt::inline v1::formulas
