#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formulas/graph.h"

namespace rapt::inline v1::formulas {

enum class Part : std::uint8_t { score, pair, visible };

// A parameter as the text uses it: m, or table[…], or table[…, …].
struct NamedParameter {
  std::string name;
  int rank = 0;
};

inline constexpr std::size_t kMostCharacters = 16384;
inline constexpr int kMostDepth = 100;

// Parses one formula into the graph and returns its root. Parameters are Op::table nodes, numbered as in the list, to which
// new ones are added; `w` of a pair is a leaf. Throws rapt::Error with the text and a caret under the place.
NodeId parse(Part part, std::string_view text, Graph& graph, std::vector<NamedParameter>& parameters);

}  // namespace rapt::inline v1::formulas
