#pragma once

#include <optional>

#include "formulas/graph.h"
#include "rapt/mechanism.h"

namespace rapt::inline v1::formulas {

// A pair formula that is a mechanism's own, times a number.
struct KnownPair {
  const MechanismInfo* mechanism = nullptr;
  const char* text = nullptr;  // of the mechanism's pair
  double factor = 1;
};

// Factors may stand in any order and differences either way round: 2*tanh(k+q)*w, -(k-q)^2. None: no mechanism has it.
std::optional<KnownPair> known_pair(const Graph& graph, NodeId root);

}  // namespace rapt::inline v1::formulas
