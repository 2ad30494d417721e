#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formulas/graph.h"

namespace rapt::inline v1::formulas {

// Evaluates a graph for one pair at a time, in double: the yardstick for the other ways of computing it.
class Evaluator {
 public:
  Evaluator() = default;
  Evaluator(const Graph& graph, std::span<const NodeId> roots);

  // leaf(node, row, col) gives what a leaf reads; a reduction over one pair is that pair. values: [graph.size()], written.
  template <class F>
  void run(double* values, F&& leaf) const {
    for (const NodeId id : order_) {
      const Node& node = (*graph_)[id];
      const auto child = [&](std::size_t n) { return node.children[n] == kNone ? 0 : values[node.children[n]]; };
      double& to = values[id];
      if (node.op == Op::number) to = node.value;
      else if (is_leaf(node.op)) to = leaf(node, child(0), child(1));
      else if (node.op == Op::reduce) to = child(0);
      else to = apply(node.op, child(0), child(1), child(2));
    }
  }

 private:
  const Graph* graph_ = nullptr;
  std::vector<NodeId> order_;
};

}  // namespace rapt::inline v1::formulas
