#pragma once

#include <array>
#include <optional>

#include "formulas/derive.h"
#include "formulas/evaluate.h"
#include "rapt/hooks.h"

namespace rapt::inline v1::formulas {

// A score that is a quadratic form of the grid offset, as QuadraticForm of hooks.h: its coefficients are formulas of the
// parameters alone. Such scores factorise.
class Form {
 public:
  static constexpr std::size_t kTerms = 6;

  // Nullopt if the score is not one, or if a coefficient depends on more than numbers.
  static std::optional<Form> find(const Graph& graph, NodeId score);

  // The coefficients as formulas.
  const Graph& graph() const { return graph_; }
  const std::array<NodeId, kTerms>& terms() const { return terms_; }
  // The coefficients and their slopes in every slot.
  void evaluate(const double* slots, double* coefficients, double (*slopes)[kMaxSlots]) const;

 private:
  static std::optional<Form> find_terms(const Graph& graph, NodeId score);

  Graph graph_;
  std::array<NodeId, kTerms> terms_{};
  std::array<std::vector<Derivative>, kTerms> slopes_;
  std::vector<NodeId> roots_;
};

}  // namespace rapt::inline v1::formulas
