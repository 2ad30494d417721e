#pragma once

#include <vector>

#include "formulas/graph.h"

namespace rapt::inline v1::formulas {

// The gradient of one leaf or table that a formula reads.
struct Derivative {
  NodeId of = kNone;        // the leaf, or the table with its places
  NodeId gradient = kNone;  // at the leaf's level: summed over all pairs of each place
};

// Adds the derivatives of `root`, times Op::grad, to the graph: of the raw score, of q, k and w, of values and tables.
std::vector<Derivative> derive(Graph& graph, NodeId root);

}  // namespace rapt::inline v1::formulas
