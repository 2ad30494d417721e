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
      measure(id);
    }
    for (const Derivative& d : derivatives_) {
      if (graph_[d.of].op != Op::table || graph_[d.of].level != Level::pair) continue;
      scatter(d);
      measure(d.of);
    }
    // The scores are overwritten last: until then the block reads what stands there.
    if (last_alone && !adds_) emit(result_, {.space = Space::scores});
    else if (result_ != kNone) {
      if (last_alone) emit(result_, {});
      to_.blocks_.push_back({.op = Op::raw, .out = {.space = Space::scores}, .a = in_block(result_)});
    }
    if (result_ != kNone) measure(result_);
    for (const Derivative& d : derivatives_) {
      const Node& leaf = graph_[d.of];
      if (leaf.op == Op::raw || leaf.level == Level::pair) continue;
      to_.outputs_.push_back({.of = leaf.op, .index = leaf.index, .gradient = place(d.gradient), .row = {}, .col = {}});
      if (leaf.op != Op::table) continue;
      if (leaf.children[0] != kNone) to_.outputs_.back().row = place(leaf.children[0]);
      if (leaf.children[1] != kNone) to_.outputs_.back().col = place(leaf.children[1]);
    }
    const TextPlace place = largest_ == kNone ? TextPlace{} : graph_[largest_].place;
    if (numbers() > kWorkspace)
      throw TooLarge("expected one that keeps at most " + std::to_string(kWorkspace) +
                         " numbers of a tile of pairs at a time, got one that keeps " + std::to_string(numbers()) +
                         " (" + std::to_string(lines_) + " times one for each key, query or offset, " +
                         std::to_string(spreads_) + " times one for each key, " + std::to_string(temporaries_) +
                         " times one for each pair)",
                     place);
    if (scalars_ > kMostScalars)
      throw TooLarge("expected at most " + std::to_string(kMostScalars) +
                         " numbers that all pairs share, derivatives included, got " + std::to_string(scalars_),
                     place);
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
  int numbers() const {
    return lines_ * kLineSize + spreads_ * kSpreadSize + temporaries_ * (kMostQueries + kTemporaryGap);
  }

  // Remembers with what it became too large.
  void measure(NodeId id) {
    if (largest_ == kNone && (numbers() > kWorkspace || scalars_ > kMostScalars)) largest_ = id;
  }

  // Computed for every pair, in blocks.
  bool is_block(NodeId id) const {
    const Node& node = graph_[id];
    return node.level == Level::pair && node.op != Op::raw && node.op != Op::grad;
  }

  const Place& place(NodeId id) const { return places_[static_cast<std::size_t>(id)]; }
  bool after(NodeId id) const { return after_[static_cast<std::size_t>(id)]; }

  // What a block's operation computes at once: a·b + c and its like, where nothing else needs the parts.
  struct Fused {
    Op op = Op::number;
    std::array<NodeId, 4> operands{kNone, kNone, kNone, kNone};
    std::array<NodeId, 3> parts{kNone, kNone, kNone};
  };

  // The users of a node come after it: what is a part already begins nothing of its own.
  void find_fused() {
    fusions_.resize(needed_.size());
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (needed_[static_cast<std::size_t>(id)] && is_block(id)) fusions_[static_cast<std::size_t>(id)] = fuse(id);
    for (NodeId id = static_cast<NodeId>(graph_.size() - 1); id >= 0; --id) {
      if (!needed_[static_cast<std::size_t>(id)] || fused_[static_cast<std::size_t>(id)] || !is_block(id)) continue;
      for (const NodeId part : fusion(id).parts)
        if (part != kNone) fused_[static_cast<std::size_t>(part)] = true;
    }
  }

  // Computed for every pair, for one reader.
  bool is_part(NodeId id, Op op) const {
    return graph_[id].op == op && is_block(id) && uses_[static_cast<std::size_t>(id)] == 1;
  }

  const Fused& fusion(NodeId id) const { return fusions_[static_cast<std::size_t>(id)]; }

  Fused fuse(NodeId id) const {
    const Node& node = graph_[id];
    const NodeId a = node.children[0], b = node.children[1], c = node.children[2];
    // Of a product, what is one number for all pairs is its second factor.
    const auto of = [&](NodeId n, std::size_t child) {
      const std::array<NodeId, 3>& parts = graph_[n].children;
      const bool swapped = graph_[n].op == Op::multiply && graph_[parts[0]].level == Level::uniform;
      return parts[swapped ? 1 - child : child];
    };
    if (node.op == Op::multiply) {
      // Squared distances.
      for (const auto& [scale, sum] : {std::pair{a, b}, std::pair{b, a}}) {
        if (is_block(scale) || !is_part(sum, Op::add)) continue;
        const NodeId p = of(sum, 0), q = of(sum, 1);
        if (is_part(p, Op::multiply) && is_part(q, Op::multiply) && of(p, 0) == of(p, 1) && of(q, 0) == of(q, 1))
          return {Op::scaled_squares, {of(p, 0), of(q, 0), scale, kNone}, {sum, p, q}};
      }
    }
    if (node.op == Op::add || node.op == Op::subtract) {
      const bool adds = node.op == Op::add;
      const bool first = is_part(a, Op::multiply), second = is_part(b, Op::multiply);
      if (first && second)
        return {
            adds ? Op::add_products : Op::subtract_products, {of(a, 0), of(a, 1), of(b, 0), of(b, 1)}, {a, b, kNone}};
      if (first)
        return {adds ? Op::multiply_add : Op::multiply_subtract, {of(a, 0), of(a, 1), b, kNone}, {a, kNone, kNone}};
      if (second)
        return {adds ? Op::multiply_add : Op::negated_multiply_add, {of(b, 0), of(b, 1), a, kNone}, {b, kNone, kNone}};
      // What is a sum of three already takes no fourth.
      if (!adds && is_part(a, Op::subtract) && fusion(a).parts[0] == kNone)
        return {Op::subtract_both, {of(a, 0), of(a, 1), b, kNone}, {a, kNone, kNone}};
    }
    if (node.op == Op::multiply) return {node.op, {of(id, 0), of(id, 1), kNone, kNone}, {kNone, kNone, kNone}};
    return {node.op, {a, b, c, kNone}, {kNone, kNone, kNone}};
  }

  // A temporary lives until the last operation that reads it. So does a line that only lines read: what else reads one does
  // so in rounds of its own.
  void find_last_uses() {
    last_use_.assign(needed_.size(), kNone);
    last_spread_.assign(needed_.size(), kNone);
    held_.assign(needed_.size(), false);
    read_later_.assign(needed_.size(), false);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!needed_[static_cast<std::size_t>(id)] || fused_[static_cast<std::size_t>(id)]) continue;
      const Node& node = graph_[id];
      const bool is_line = node.op != Op::reduce && node.level != Level::uniform && node.level != Level::pair;
      for (const NodeId operand : operands(id)) {
        if (operand == kNone) continue;
        last_use_[static_cast<std::size_t>(operand)] = id;
        if (node.level == Level::pair) last_spread_[static_cast<std::size_t>(operand)] = id;
        if (!is_line) held_[static_cast<std::size_t>(operand)] = true;
      }
    }
    const auto keep = [&](NodeId id) {
      if (id != kNone)
        last_use_[static_cast<std::size_t>(id)] = last_spread_[static_cast<std::size_t>(id)] = graph_.size();
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

  std::array<NodeId, 4> operands(NodeId id) const {
    if (is_block(id)) return fusion(id).operands;
    const Node& node = graph_[id];
    return {node.children[0], node.children[1], node.children[2], kNone};
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
    const std::array<NodeId, 4> inputs = operands(id);
    Instruction instruction{.op = node.op, .level = node.level, .index = node.index, .value = node.value};
    if (is_block(id)) instruction.op = fusion(id).op;
    bool later = node.op == Op::reduce;
    Place* const targets[] = {&instruction.a, &instruction.b, &instruction.c, &instruction.d};
    for (std::size_t k = 0; k < 4; ++k) {
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
      instruction.out = places_[n] = new_line(node.level, later);
      (later ? to_.lines_after_ : to_.lines_).push_back(instruction);
      for (const NodeId input : inputs) release_line(input, id, later);
    } else {
      // Operands that end here give their place to the result.
      for (const NodeId input : inputs) release(input, id);
      instruction.out = places_[n] = out.space != Space::none ? out : new_temporary();
      to_.blocks_.push_back(instruction);
      for (const NodeId input : inputs) release_spread(input, id);
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
    instruction.out = places_[n] = new_line(instruction.level, false);
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

  // Where blocks read a node: numbers of keys are spread over vectors first, and stay so until their last reader.
  Place in_block(NodeId id) {
    const Place from = place(id);
    if (from.space != Space::line || from.level != Level::key) return from;
    Place& to = spread_places_[static_cast<std::size_t>(id)];
    if (to.space == Space::none) {
      if (free_spreads_.empty()) free_spreads_.push_back(static_cast<std::int16_t>(spreads_++));
      to = {.space = Space::spread, .level = Level::key, .index = free_spreads_.back()};
      free_spreads_.pop_back();
      to_.blocks_.push_back({.op = Op::raw, .level = Level::key, .out = to, .a = from});
    }
    return to;
  }

  void release_spread(NodeId id, NodeId by) {
    if (id == kNone || last_spread_[static_cast<std::size_t>(id)] != by) return;
    const Place& spread = spread_places_[static_cast<std::size_t>(id)];
    if (spread.space == Space::none) return;
    last_spread_[static_cast<std::size_t>(id)] = kNone;  // the same operand twice is one spread
    free_spreads_.push_back(spread.index);
  }

  // Lines are computed in two rounds, before the pairs and after them. A line that is free after the first round is so in
  // the second too, and not the other way round.
  Place new_line(Level level, bool later) {
    std::vector<std::int16_t>& free = later && !free_lines_[1].empty() ? free_lines_[1] : free_lines_[0];
    if (free.empty()) free.push_back(static_cast<std::int16_t>(lines_++));
    const std::int16_t index = free.back();
    free.pop_back();
    return {.space = Space::line, .level = level, .index = index};
  }

  void release_line(NodeId id, NodeId by, bool later) {
    if (id == kNone || place(id).space != Space::line) return;
    const auto n = static_cast<std::size_t>(id);
    read_later_[n] = read_later_[n] || later;
    if (held_[n] || last_use_[n] != by) return;
    last_use_[n] = kNone;
    free_lines_[read_later_[n] ? 1 : 0].push_back(place(id).index);
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
  std::vector<Fused> fusions_;           // of blocks that are needed
  std::vector<bool> held_, read_later_;  // of lines: read by others than lines; read in the second round
  std::vector<int> uses_;
  std::vector<NodeId> last_use_, last_spread_;  // the latter among blocks
  std::vector<Place> places_, spread_places_;
  std::vector<std::int16_t> free_, free_spreads_;
  std::array<std::vector<std::int16_t>, 2> free_lines_;
  int scalars_ = 0, lines_ = 0, spreads_ = 0, temporaries_ = 0;
  NodeId largest_ = kNone;  // the first with which it is too large
};

CompiledProgram::CompiledProgram(const Graph& graph, NodeId result, std::span<const Derivative> derivatives,
                                 bool adds) {
  Compiler compiler(graph, result, derivatives, adds, *this);
  compiler.run();
  compiler.finish(program_);
}

}  // namespace rapt::inline v1::formulas
