#pragma once

#include "formulas/graph.h"

// Conditions that cannot be answered: those that read a table at an index outside of it, or a NaN in it. Such a pair is
// neither seen nor hidden: its score is NaN.
namespace rapt::inline v1::formulas {

// Whether what a node reads leaves it open; kNone: never. `and` and `or` are settled by the side that is known.
NodeId unknown(Graph& graph, NodeId root);

// where(condition, a, b) of numbers, NaN where the condition is open.
NodeId known_where(Graph& graph, NodeId condition, NodeId a, NodeId b);

// The score after visible: −∞ where it is hidden, NaN where that is open and nothing else hides it.
NodeId hidden_score(Graph& graph, NodeId condition);

}  // namespace rapt::inline v1::formulas
