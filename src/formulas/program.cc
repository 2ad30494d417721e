#include "formulas/program.h"

#include <algorithm>
#include <string>

#include "rapt/error.h"

namespace rapt::inline v1::formulas {

class Compiler {
 public:
  Compiler(const Graph& graph, NodeId result, std::span<const Derivative> derivatives, bool adds, CompiledProgram& to)
      : graph_(graph), result_(result), derivatives_(derivatives), adds_(adds), to_(to) {
    const auto count = static_cast<std::size_t>(graph.size());
    std::vector<NodeId> roots;
    if (result != kNone) roots.push_back(result);
    for (const Derivative& d : derivatives) {
      if (graph[d.of].op == Op::raw) continue;
      roots.push_back(d.gradient);
      if (graph[d.of].op == Op::table)
        for (const NodeId place : graph[d.of].children)
          if (place != kNone) roots.push_back(place);
    }
    needed_ = graph.reachable(roots);
    uses_.assign(count, 0);
    for (const NodeId root : roots) ++uses_[static_cast<std::size_t>(root)];
    for (std::size_t id = 0; id < count; ++id)
      if (needed_[id])
        for (const NodeId child : graph[static_cast<NodeId>(id)].children)
          if (child != kNone) ++uses_[static_cast<std::size_t>(child)];
    places_.resize(count);
    spread_places_.resize(count);
    after_.assign(count, false);
    fused_.assign(count, false);
    find_fused();
    find_last_uses();
  }

  void run() {
    const bool last_alone = result_ != kNone && is_block(result_) && uses_[static_cast<std::size_t>(result_)] == 1;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const auto n = static_cast<std::size_t>(id);
      if (!needed_[n] || fused_[n] || (last_alone && id == result_)) continue;
      emit(id, {});
    }
    for (const Derivative& d : derivatives_)
      if (graph_[d.of].op == Op::table && graph_[d.of].level == Level::pair) scatter(d);
    // The scores are overwritten last: until then the block reads what stands there.
    if (last_alone && !adds_) emit(result_, {.space = Space::scores});
    else if (result_ != kNone) {
      if (last_alone) emit(result_, {});
      to_.blocks_.push_back({.op = Op::raw, .out = {.space = Space::scores}, .a = in_block(result_)});
    }
    for (const Derivative& d : derivatives_) {
      const Node& leaf = graph_[d.of];
      if (leaf.op == Op::raw || leaf.level == Level::pair) continue;
      to_.outputs_.push_back({.of = leaf.op, .index = leaf.index, .gradient = place(d.gradient), .row = {}, .col = {}});
      if (leaf.op != Op::table) continue;
      if (leaf.children[0] != kNone) to_.outputs_.back().row = place(leaf.children[0]);
      if (leaf.children[1] != kNone) to_.outputs_.back().col = place(leaf.children[1]);
    }
    const int numbers = lines_ * kLineSize + spreads_ * kSpreadSize + temporaries_ * (kMostColumns + kTemporaryGap);
    if (numbers > kWorkspace || scalars_ > kMostScalars)
      throw Error("formula: expected one that needs at most " + std::to_string(kWorkspace / kMostColumns) +
                  " intermediate numbers a pair, got one that needs more; write it in fewer parts");
  }

  void finish(Program& program) const {
    program.scalars = {to_.scalars_.data(), to_.scalars_.size()};
    program.lines = {to_.lines_.data(), to_.lines_.size()};
    program.blocks = {to_.blocks_.data(), to_.blocks_.size()};
    program.lines_after = {to_.lines_after_.data(), to_.lines_after_.size()};
    program.scalars_after = {to_.scalars_after_.data(), to_.scalars_after_.size()};
    program.outputs = {to_.outputs_.data(), to_.outputs_.size()};
    program.line_count = lines_;
    program.spread_count = spreads_;
    program.temporaries = temporaries_;
    program.adds = adds_;
  }

 private:
  // Computed for every pair, in blocks.
  bool is_block(NodeId id) const {
    const Node& node = graph_[id];
    return node.level == Level::pair && node.op != Op::raw && node.op != Op::grad;
  }

  const Place& place(NodeId id) const { return places_[static_cast<std::size_t>(id)]; }
  bool after(NodeId id) const { return after_[static_cast<std::size_t>(id)]; }

  // a·b + c and its like as one operation, where nothing else needs the product.
  void find_fused() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!needed_[static_cast<std::size_t>(id)] || !is_block(id)) continue;
      const NodeId product = fused_product(graph_[id]);
      if (product != kNone) fused_[static_cast<std::size_t>(product)] = true;
    }
  }

  NodeId fused_product(const Node& node) const {
    if (node.op != Op::add && node.op != Op::subtract) return kNone;
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}}) {
      const NodeId child = node.children[n];
      if (graph_[child].op == Op::multiply && is_block(child) && uses_[static_cast<std::size_t>(child)] == 1)
        return child;
    }
    return kNone;
  }

  // A temporary lives until the last operation that reads it.
  void find_last_uses() {
    last_use_.assign(needed_.size(), kNone);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!needed_[static_cast<std::size_t>(id)] || fused_[static_cast<std::size_t>(id)]) continue;
      for (const NodeId operand : operands(id))
        if (operand != kNone) last_use_[static_cast<std::size_t>(operand)] = id;
    }
    const auto keep = [&](NodeId id) {
      if (id != kNone) last_use_[static_cast<std::size_t>(id)] = graph_.size();
    };
    keep(result_);
    if (result_ != kNone)
      for (const NodeId operand : operands(result_)) keep(operand);
    for (const Derivative& d : derivatives_) {
      if (graph_[d.of].op == Op::raw) continue;
      keep(d.gradient);
      for (const NodeId child : graph_[d.of].children) keep(child);
    }
  }

  std::array<NodeId, 3> operands(NodeId id) const {
    const Node& node = graph_[id];
    const NodeId product = is_block(id) ? fused_product(node) : kNone;
    if (product == kNone) return node.children;
    const NodeId other = node.children[0] == product ? node.children[1] : node.children[0];
    return {graph_[product].children[0], graph_[product].children[1], other};
  }

  static Op fused_op(const Node& node, NodeId product) {
    if (node.op == Op::add) return Op::multiply_add;
    return node.children[0] == product ? Op::multiply_subtract : Op::negated_multiply_add;
  }

  void emit(NodeId id, Place out) {
    const auto n = static_cast<std::size_t>(id);
    const Node& node = graph_[id];
    if (node.op == Op::raw) {
      places_[n] = {.space = Space::raw};
      return;
    }
    if (node.op == Op::grad) {
      places_[n] = {.space = Space::scores};
      return;
    }
    const std::array<NodeId, 3> inputs = operands(id);
    Instruction instruction{.op = node.op, .level = node.level, .index = node.index, .value = node.value};
    if (is_block(id))
      if (const NodeId product = fused_product(node); product != kNone) instruction.op = fused_op(node, product);
    bool later = node.op == Op::reduce;
    Place* const targets[] = {&instruction.a, &instruction.b, &instruction.c};
    for (std::size_t k = 0; k < 3; ++k) {
      if (inputs[k] == kNone) continue;
      *targets[k] = node.level == Level::pair ? in_block(inputs[k]) : place(inputs[k]);
      later = later || after(inputs[k]);
    }
    after_[n] = later;
    if (node.op == Op::reduce) {
      reduce(id, instruction);
      return;
    }
    if (node.level == Level::uniform) {
      instruction.out = places_[n] = {.space = Space::scalar, .index = static_cast<std::int16_t>(scalars_++)};
      (later ? to_.scalars_after_ : to_.scalars_).push_back(instruction);
    } else if (node.level != Level::pair) {
      instruction.out = places_[n] = new_line(node.level);
      (later ? to_.lines_after_ : to_.lines_).push_back(instruction);
    } else {
      // Operands that end here give their place to the result.
      for (const NodeId input : inputs) release(input, id);
      instruction.out = places_[n] = out.space != Space::none ? out : new_temporary();
      to_.blocks_.push_back(instruction);
    }
  }

  void reduce(NodeId id, Instruction& instruction) {
    const auto n = static_cast<std::size_t>(id);
    const NodeId from = graph_[id].children[0];
    const Level target = static_cast<Level>(graph_[id].index);
    if (graph_[from].level != Level::pair) {
      instruction.out = places_[n] = {.space = Space::scalar, .index = static_cast<std::int16_t>(scalars_++)};
      to_.scalars_after_.push_back(instruction);
      return;
    }
    // One sum of all pairs goes through sums of each query.
    instruction.level = target == Level::uniform ? Level::query : target;
    instruction.out = places_[n] = new_line(instruction.level);
    to_.blocks_.push_back(instruction);
    release(from, id);
    if (target != Level::uniform) return;
    Instruction sum{.op = Op::reduce, .level = Level::uniform, .a = places_[n]};
    sum.out = places_[n] = {.space = Space::scalar, .index = static_cast<std::int16_t>(scalars_++)};
    to_.scalars_after_.push_back(sum);
  }

  // A table that every pair reads at its own place gets its gradient pair by pair.
  void scatter(const Derivative& d) {
    const Node& leaf = graph_[d.of];
    Instruction instruction{.op = Op::table, .level = Level::pair, .a = in_block(d.gradient), .index = leaf.index};
    if (leaf.children[0] != kNone) instruction.b = in_block(leaf.children[0]);
    if (leaf.children[1] != kNone) instruction.c = in_block(leaf.children[1]);
    to_.blocks_.push_back(instruction);
  }

  // Where blocks read a node: numbers of keys are spread over vectors first.
  Place in_block(NodeId id) {
    const Place from = place(id);
    if (from.space != Space::line || from.level != Level::key) return from;
    Place& to = spread_places_[static_cast<std::size_t>(id)];
    if (to.space == Space::none) {
      to = {.space = Space::spread, .level = Level::key, .index = static_cast<std::int16_t>(spreads_++)};
      to_.lines_.push_back({.op = Op::raw, .level = Level::key, .out = to, .a = from});
    }
    return to;
  }

  Place new_line(Level level) {
    return {.space = Space::line, .level = level, .index = static_cast<std::int16_t>(lines_++)};
  }

  Place new_temporary() {
    if (free_.empty()) free_.push_back(static_cast<std::int16_t>(temporaries_++));
    const std::int16_t index = free_.back();
    free_.pop_back();
    return {.space = Space::block, .index = index};
  }

  void release(NodeId id, NodeId by) {
    if (id == kNone || place(id).space != Space::block || last_use_[static_cast<std::size_t>(id)] != by) return;
    // The same operand twice is one temporary.
    last_use_[static_cast<std::size_t>(id)] = kNone;
    free_.push_back(place(id).index);
  }

  const Graph& graph_;
  NodeId result_;
  std::span<const Derivative> derivatives_;
  bool adds_;
  CompiledProgram& to_;
  std::vector<bool> needed_, after_, fused_;
  std::vector<int> uses_;
  std::vector<NodeId> last_use_;
  std::vector<Place> places_, spread_places_;
  std::vector<std::int16_t> free_;
  int scalars_ = 0, lines_ = 0, spreads_ = 0, temporaries_ = 0;
};

CompiledProgram::CompiledProgram(const Graph& graph, NodeId result, std::span<const Derivative> derivatives,
                                 bool adds) {
  Compiler compiler(graph, result, derivatives, adds, *this);
  compiler.run();
  compiler.finish(program_);
}

}  // namespace rapt::inline v1::formulas
