#pragma once

#include <array>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/evaluate.h"
#include "formulas/exact.h"
#include "formulas/form.h"
#include "formulas/interval.h"
#include "formulas/parser.h"
#include "formulas/program.h"
#include "formulas/programs.h"
#include "mechanisms/device_hooks.h"
#include "mechanisms/objects.h"
#include "rapt/formula.h"

namespace rapt::inline v1::formulas {

// raw*scale, which engines do by themselves.
bool is_scaled_raw(const Graph& graph, NodeId root);

// A formula, parsed and compiled: the mechanism that it is, and the programs of its tiles.
class Formula {
 public:
  Formula(std::string_view score, const FormulaOptions& options);
  Formula(const Formula&) = delete;
  Formula& operator=(const Formula&) = delete;

  const MechanismInfo& info() const { return info_; }
  const FormulaPrograms& programs() const { return programs_; }

  // One pair at a time, in double.
  template <class T>
  void score(const ScoreTile<T>& tile) const;
  template <class T>
  void score_backward(const ScoreTile<T>& tile) const;
  template <class T>
  void hide(const ScoreTile<T>& tile) const;
  template <class T>
  void raw(const PairTile<T>& tile) const;
  template <class T>
  void raw_backward(const PairTile<T>& tile) const;
  template <class T>
  Visible visible_tile(const ScoreTile<T>& tile) const;

  std::int64_t index(std::size_t parameter, std::int64_t offset, const TableShape& shape) const;
  bool visible_offsets(const TableShape& shape, std::int64_t& first, std::int64_t& last) const;
  bool uses_raw() const { return uses_raw_; }
  const Choices& choices() const { return choices_; }
  // Whether score or visible has that leaf, indices of tables included.
  bool reads(Op op) const;
  const Form& form() const { return *form_; }
  // offsets_seen: what visible says of offsets alone is in the masks already.
  const DeviceHooks& device_hooks(bool offsets_seen) const;

 private:
  // A condition of pairs, and whether it can be answered.
  struct Condition {
    Condition() = default;
    Condition(Graph& graph, NodeId condition);

    NodeId holds = kNone, open = kNone;
    Evaluator evaluator;
    IntervalEvaluator bounds, open_bounds;
  };

  void parse_texts(std::string_view score, const FormulaOptions& options);
  void take_known_pair();
  void place_parameters();
  bool is_fixed(std::size_t parameter, std::array<int, 2>& sizes) const;
  NodeId read_by_offset(std::size_t parameter) const;
  NodeId place_reads(NodeId root);
  void split_visible();
  NodeId for_tiles(NodeId root);
  void compile();
  void define();
  DeviceHooks write_hooks(bool offsets_seen) const;
  Programs programs_of(const Interpreters& interpreters) const;

  std::string text_;
  std::vector<NamedParameter> names_;
  Graph parsed_{kMostOperations}, parsed_pair_;
  NodeId parsed_score_ = kNone, parsed_visible_ = kNone, pair_ = kNone;
  const MechanismInfo* compiled_pair_ = nullptr;  // whose pair it is, times raw_factor_
  double raw_factor_ = 1;

  Graph graph_;  // of score and visible, their parameters in place
  NodeId score_ = kNone, visible_ = kNone;
  NodeId by_offset_ = kNone;   // what visible says of offsets alone
  Condition all_, rest_;       // visible, and what of it is not of offsets alone
  std::vector<NodeId> index_;  // [parameters]: in parsed_, where a table is read by offset
  std::vector<int> places_;    // [parameters]: slot or table
  Graph tiles_;                // the same for tiles: what rounding allows is taken out of the pairs
  std::vector<Derivative> derivatives_, pair_derivatives_;
  NodeId raw_gradient_ = kNone;
  bool uses_raw_ = false;
  Evaluator score_evaluator_, gradient_evaluator_, pair_evaluator_, pair_gradient_evaluator_;
  std::vector<Evaluator> index_evaluators_;
  IntervalEvaluator offset_bounds_;
  Choices choices_;

  std::optional<Form> form_;
  std::vector<ParameterSpec> specs_;
  CompiledProgram score_program_, backward_program_, hide_program_, rest_program_, pair_program_,
      pair_backward_program_;
  FormulaPrograms programs_;
  std::array<Programs, kIsas> isa_programs_;
  RegistryEntry entry_;
  MechanismDefinition definition_;
  MechanismInfo info_{definition_};
  // Written when they are first asked for, without and with offsets_seen.
  mutable std::array<std::once_flag, 2> hooks_written_;
  mutable std::array<DeviceHooks, 2> hooks_;
};

}  // namespace rapt::inline v1::formulas
