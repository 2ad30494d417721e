#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formulas/graph.h"
#include "mechanisms/call_ranges.h"

// Whether what a formula chooses by (indices of tables, comparisons) is what it would be in exact arithmetic, wherever the
// queries and keys of a call stand. Kernels compute it in their own type, which rounds whole numbers above 2^24 (f64: 2^53).
namespace rapt::inline v1::formulas {

class Choices {
 public:
  Choices() = default;
  // names: of the tables, in the order of their indices.
  Choices(const Graph& graph, std::span<const NodeId> roots, std::vector<std::string> names);

  explicit operator bool() const { return !steps_.empty(); }
  // What was expected and what is there instead; empty: every choice is exact.
  std::string inexact(const CallRanges& call) const;
  // How far a table's two indices may go in such a call, in the tightest bounds that are known.
  std::array<NumberRange, 2> reads(const CallRanges& call, int table) const;

 private:
  struct Step {
    Node node;
    std::array<int, 3> inputs{-1, -1, -1};
    bool is_summed = false;  // a table's numbers that arithmetic of a choice goes on with
  };
  // each(step, what its inputs may be) goes on while it gives true.
  template <class F>
  void evaluate(const CallRanges& call, F&& each) const;

  std::vector<Step> steps_;
  std::vector<std::string> names_;
};

}  // namespace rapt::inline v1::formulas
