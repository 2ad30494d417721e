#include "formulas/evaluate.h"

namespace rapt::inline v1::formulas {

Evaluator::Evaluator(const Graph& graph, std::span<const NodeId> roots) : graph_(&graph) {
  const std::vector<bool> needed = graph.reachable(roots);
  for (NodeId id = 0; id < graph.size(); ++id)
    if (needed[static_cast<std::size_t>(id)]) order_.push_back(id);
}

}  // namespace rapt::inline v1::formulas
