#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "formulas/graph.h"

// What a formula may give over a whole tile: bounds of every node. Conditions are [0,0], [1,1] or [0,1].
namespace rapt::inline v1::formulas {

struct Interval {
  double low = 0, high = 0;
  bool whole = false;     // every number in it is whole and small, so that nothing was rounded
  bool may_fail = false;  // it may be NaN
  bool quotient = false;  // of whole numbers: rounded once, so that its floor is that of every type

  static Interval everything() { return {-HUGE_VAL, HUGE_VAL, false, true}; }
  static Interval of(double low, double high);
  static Interval unknown_condition() { return {0, 1, true, false}; }
  bool is_point() const { return low == high && !may_fail; }
};

Interval apply(const Node& node, const Interval& a, const Interval& b, const Interval& c);

class IntervalEvaluator {
 public:
  IntervalEvaluator() = default;
  IntervalEvaluator(const Graph& graph, NodeId root);

  // leaf(node, row, col) gives the bounds of a leaf.
  template <class F>
  Interval run(F&& leaf) const {
    std::array<Interval, kMost> values;
    for (std::size_t n = 0; n < steps_.size(); ++n) {
      const Step& step = steps_[n];
      const auto child = [&](std::size_t k) {
        return step.inputs[k] < 0 ? Interval{} : values[static_cast<std::size_t>(step.inputs[k])];
      };
      if (step.node.op == Op::number) values[n] = Interval::of(step.node.value, step.node.value);
      else if (is_leaf(step.node.op)) values[n] = leaf(step.node, child(0), child(1));
      else values[n] = apply(step.node, child(0), child(1), child(2));
    }
    return values[steps_.size() - 1];
  }

  // Too long a formula is not looked at: its tiles are asked pair by pair.
  explicit operator bool() const { return !steps_.empty(); }

 private:
  static constexpr std::size_t kMost = 128;
  struct Step {
    Node node;
    std::array<int, 3> inputs{-1, -1, -1};
  };
  std::vector<Step> steps_;
};

}  // namespace rapt::inline v1::formulas
