#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formulas/graph.h"

namespace rapt::inline v1::formulas {

// A parameter as the text uses it: m, or table[…], or table[…, …].
struct NamedParameter {
  std::string name;
  int rank = 0;
  TextPlace place{};  // where it is first used
};

inline constexpr std::size_t kMostCharacters = 16384;
inline constexpr int kMostDepth = 100;
inline constexpr int kMostIndex = (1 << 20) - 1;  // that is written as a number

// The sentence, then the part of the text around the place, then a caret under it.
[[noreturn]] void refuse_at(Part part, std::string_view text, std::size_t at, const std::string& sentence);

// Parses one formula into the graph and returns its root. Parameters are Op::table nodes, numbered as in the list, to which
// new ones are added; `w` of a pair is a leaf. Throws rapt::Error with the text and a caret under the place.
NodeId parse(Part part, std::string_view text, Graph& graph, std::vector<NamedParameter>& parameters);

}  // namespace rapt::inline v1::formulas
