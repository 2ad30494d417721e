#pragma once

#include <optional>
#include <string>

#include "formulas/graph.h"

// Formulas as source of hooks (rapt/hooks.h), for compilers that run when the program does.
namespace rapt::inline v1::formulas {

// The statements that compute a node, ending in `return`. `result` is the type that is returned. None where the graph has
// what hooks do not see: grid coordinates that are not a difference of key and query.
std::optional<std::string> hook_body(const Graph& graph, NodeId root, const std::string& result);

}  // namespace rapt::inline v1::formulas
