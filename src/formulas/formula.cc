#include "formulas/formula.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formulas/known_pair.h"
#include "formulas/unknown.h"
#include "rapt/error.h"

namespace rapt::inline v1 {

namespace formulas {
namespace {

bool is_product(const Graph& graph, NodeId root) {
  const Node& node = graph[root];
  if (node.op != Op::multiply) return false;
  const Op a = graph[node.children[0]].op, b = graph[node.children[1]].op;
  return (a == Op::pair_q && b == Op::pair_k) || (a == Op::pair_k && b == Op::pair_q);
}

bool reads(const Graph& graph, NodeId root, Op op) {
  if (root == kNone) return false;
  const NodeId roots[] = {root};
  const std::vector<bool> needed = graph.reachable(roots);
  for (NodeId id = 0; id < graph.size(); ++id)
    if (needed[static_cast<std::size_t>(id)] && graph[id].op == op) return true;
  return false;
}

// x·u, where x may have such a factor already.
NodeId multiply_uniform(Graph& graph, NodeId x, NodeId u) {
  const Node node = graph[x];
  if (node.op == Op::multiply)
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}})
      if (graph[node.children[n]].level == Level::uniform)
        return graph.binary(Op::multiply, node.children[1 - n], graph.binary(Op::multiply, node.children[n], u));
  return graph.binary(Op::multiply, x, u);
}

// (x ± u) ± v as x ± (u ± v), where u and v are of the same keys, queries or offsets: one sum for each pair. kNone: it is
// not of that form.
NodeId sum_lines(Graph& graph, Op op, NodeId a, NodeId b) {
  if (op == Op::add && graph[a].level != Level::pair) std::swap(a, b);
  const Node inner = graph[a];
  const Level level = graph[b].level;
  if (level == Level::pair || inner.level != Level::pair || (inner.op != Op::add && inner.op != Op::subtract))
    return kNone;
  NodeId x = inner.children[0], u = inner.children[1];
  if (inner.op == Op::add && graph[u].level != level) std::swap(x, u);
  if (graph[u].level != level || graph[x].level != Level::pair) return kNone;
  const bool adds = (op == Op::add) == (inner.op == Op::add);
  return graph.binary(inner.op, x, graph.binary(adds ? Op::add : Op::subtract, u, b));
}

const FormulaPrograms& of(const void* object) { return *static_cast<const FormulaPrograms*>(object); }

}  // namespace

bool is_scaled_raw(const Graph& graph, NodeId root) {
  const Node& node = graph[root];
  if (node.op != Op::multiply) return false;
  const Op a = graph[node.children[0]].op, b = graph[node.children[1]].op;
  return (a == Op::raw && b == Op::scale) || (a == Op::scale && b == Op::raw);
}

Formula::Formula(std::string_view score, const FormulaOptions& options) {
  parse_texts(score, options);
  try {
    place_parameters();
    split_visible();
    compile();
  } catch (const TooLarge& large) {
    const std::string_view texts[] = {score, options.pair, options.visible};
    refuse_at(large.place.part, texts[static_cast<std::size_t>(large.place.part)],
              static_cast<std::size_t>(large.place.at), large.sentence);
  }
  define();
}

bool Formula::reads(Op op) const {
  const auto in_index = [&](NodeId index) { return formulas::reads(parsed_, index, op); };
  return formulas::reads(graph_, score_, op) || formulas::reads(graph_, visible_, op) ||
         std::ranges::any_of(index_, in_index);
}

void Formula::parse_texts(std::string_view score, const FormulaOptions& options) {
  const bool is_default = score.find_first_not_of(" \t\r\n") == std::string_view::npos;
  const std::string_view own = is_default ? "raw*scale" : score;
  text_ = own.substr(0, kMostCharacters);
  parsed_score_ = parse(Part::score, own, parsed_, names_);
  if (!options.visible.empty()) {
    parsed_visible_ = parse(Part::visible, options.visible, parsed_, names_);
    text_ += "; visible: " + options.visible;
  }
  if (options.pair.empty()) return;
  std::vector<NamedParameter> none;
  pair_ = parse(Part::pair, options.pair, parsed_pair_, none);
  text_ += "; pair: " + options.pair;
  take_known_pair();
  if (!formulas::reads(parsed_, parsed_score_, Op::raw))
    refuse_at(Part::score, own, 0, "expected a score that reads raw, which pair computes");
  const auto named_w = std::ranges::find(names_, "w", &NamedParameter::name);
  if (named_w != names_.end())
    refuse_at(named_w->place.part, named_w->place.part == Part::score ? own : std::string_view(options.visible),
              static_cast<std::size_t>(named_w->place.at),
              "'w' is the weight of the pair formula; expected another name for this parameter");
}

// A pair that a mechanism of the library has too is computed by its compiled hooks, with their specialised paths; its factor
// goes to the score.
void Formula::take_known_pair() {
  const std::optional<KnownPair> known = known_pair(parsed_pair_, pair_);
  if (!known) return;
  compiled_pair_ = known->mechanism;
  raw_factor_ = known->factor;
  std::vector<NamedParameter> none;
  parsed_pair_ = Graph();
  pair_ = parse(Part::pair, known->text, parsed_pair_, none);
}

// Whether the parameter is only read at indices that are written as numbers, and then its sizes.
bool Formula::is_fixed(std::size_t parameter, std::array<int, 2>& sizes) const {
  const NodeId roots[] = {parsed_score_, parsed_visible_};
  const std::vector<bool> needed = parsed_.reachable(roots);
  bool fixed = true;
  sizes = {};
  for (NodeId id = 0; id < parsed_.size(); ++id) {
    const Node& node = parsed_[id];
    if (node.op != Op::table || static_cast<std::size_t>(node.index) != parameter) continue;
    if (!needed[static_cast<std::size_t>(id)]) continue;
    for (std::size_t n = 0; n < 2; ++n) {
      if (node.children[n] == kNone) continue;
      const Node& place = parsed_[node.children[n]];
      fixed = fixed && place.op == Op::number;
      if (place.op != Op::number) continue;
      sizes[n] = std::max(sizes[n], static_cast<int>(place.value) + 1);
    }
  }
  return fixed;
}

// The index that a table of one dimension is read at, where that is one index and depends on the offset alone.
NodeId Formula::read_by_offset(std::size_t parameter) const {
  NodeId found = kNone;
  const NodeId roots[] = {parsed_score_, parsed_visible_};
  const std::vector<bool> needed = parsed_.reachable(roots);
  for (NodeId id = 0; id < parsed_.size(); ++id) {
    const Node& node = parsed_[id];
    if (node.op != Op::table || static_cast<std::size_t>(node.index) != parameter) continue;
    if (!needed[static_cast<std::size_t>(id)]) continue;
    const Node& place = parsed_[node.children[0]];
    if (found != kNone || place.level != Level::offset || place.dependencies != kOnPlaces) return kNone;
    found = node.children[0];
  }
  return found;
}

// What each parameter is: numbers in slots, a table by offset in a slot, or a table read at indices of the formula's own.
void Formula::place_parameters() {
  int slots = 0, tables = 0;
  index_.assign(names_.size(), kNone);
  index_evaluators_.resize(names_.size());
  std::vector<std::array<int, 2>> sizes(names_.size());
  for (std::size_t p = 0; p < names_.size(); ++p) {
    ParameterSpec spec{.name = names_[p].name};
    // A table whose reads were folded away (t[j]^0) still takes what the text says.
    const bool fixed = is_fixed(p, sizes[p]) && (names_[p].rank == 0 || sizes[p][0] > 0);
    if (fixed) spec.sizes = sizes[p];
    else
      for (int n = 0; n < names_[p].rank; ++n) spec.sizes[static_cast<std::size_t>(n)] = kAny;
    const NodeId by_offset = !fixed && names_[p].rank == 1 ? read_by_offset(p) : kNone;
    // Written indices may be a million each: their product does not fit an int.
    const auto count = [&](std::size_t n) { return std::int64_t{spec.sizes[n] > 0 ? spec.sizes[n] : 1}; };
    const int wanted = fixed ? static_cast<int>(std::min<std::int64_t>(count(0) * count(1), kMaxSlots + 1)) : 1;
    if (fixed && wanted <= kMaxSlots - slots) {
      spec.role = Role::value;
    } else if (by_offset != kNone && slots < kMaxSlots) {
      spec.role = Role::relative_value;
      index_[p] = by_offset;
      index_evaluators_[p] = Evaluator(parsed_, std::span(&by_offset, 1));
    } else {
      spec.role = Role::table;
      if (tables >= kMaxTables)
        throw TooLarge("expected at most " + std::to_string(kMaxSlots) + " numbers and tables by offset and " +
                           std::to_string(kMaxTables) + " more numbers or tables as parameters, got more at '" +
                           names_[p].name + "'",
                       names_[p].place);
    }
    places_.push_back(spec.role == Role::table ? tables : slots);
    (spec.role == Role::table ? tables : slots) += spec.role == Role::table ? 1 : wanted;
    specs_.push_back(spec);
  }
  score_ = place_reads(parsed_score_);
  if (parsed_visible_ != kNone) visible_ = place_reads(parsed_visible_);
  uses_raw_ = formulas::reads(graph_, score_, Op::raw);
  if (pair_ != kNone && is_product(parsed_pair_, pair_)) pair_ = kNone;
  if (formulas::reads(parsed_pair_, pair_, Op::pair_w))
    specs_.push_back({.name = "w", .role = Role::pair_weight, .sizes = {kKeyDim}});
}

NodeId Formula::place_reads(NodeId root) {
  return graph_.import(parsed_, root, [&](NodeId id, const std::array<NodeId, 3>& children) {
    const Node& node = parsed_[id];
    if (node.op == Op::where) return known_where(graph_, children[0], children[1], children[2]);
    if (node.op == Op::raw && raw_factor_ != 1)
      return graph_.binary(Op::multiply, graph_.leaf(Op::raw), graph_.number(raw_factor_));
    if (node.op != Op::table) return kNone;
    const auto p = static_cast<std::size_t>(node.index);
    if (specs_[p].role == Role::relative_value) return graph_.leaf(Op::relative, places_[p]);
    if (specs_[p].role == Role::table) return graph_.table(places_[p], children[0], children[1]);
    const auto place = [&](std::size_t n) {
      return children[n] == kNone ? 0 : static_cast<int>(graph_[children[n]].value);
    };
    const int cols = specs_[p].rank() == 2 ? specs_[p].sizes[1] : 1;
    return graph_.leaf(Op::value, places_[p] + place(0) * cols + place(1));
  });
}

Formula::Condition::Condition(Graph& graph, NodeId condition) : holds(condition), open(unknown(graph, condition)) {
  const NodeId roots[] = {holds, open};
  evaluator = Evaluator(graph, roots);
  bounds = IntervalEvaluator(graph, holds);
  if (open != kNone) open_bounds = IntervalEvaluator(graph, open);
}

// Conditions that are joined by "and" can be asked one after the other; those of offsets alone are ranges of keys.
void Formula::split_visible() {
  if (visible_ == kNone) return;
  NodeId rest = kNone;
  std::vector<NodeId> waiting{visible_};
  while (!waiting.empty()) {
    const NodeId id = waiting.back();
    waiting.pop_back();
    const Node node = graph_[id];
    if (node.op == Op::logical_and) {
      waiting.push_back(node.children[1]);
      waiting.push_back(node.children[0]);
      continue;
    }
    NodeId& part = node.level == Level::offset && node.dependencies == kOnPlaces ? by_offset_ : rest;
    part = part == kNone ? id : graph_.binary(Op::logical_and, part, id);
  }
  if (by_offset_ != kNone) offset_bounds_ = IntervalEvaluator(graph_, by_offset_);
  all_ = Condition(graph_, visible_);
  if (rest != kNone) rest_ = Condition(graph_, rest);
}

namespace {

// Whether a rounding of its argument may change the result by more than a rounding.
bool is_step(Op op) {
  return op == Op::floor || op == Op::sign || op == Op::less || op == Op::less_equal || op == Op::equal ||
         op == Op::table;
}

}  // namespace

// Factors that are the same for all pairs are multiplied first, divisors becoming factors; what is the same for a key,
// a query or an offset is added up first. Only sums of raw scores: indices of tables stay as they are written.
NodeId Formula::for_tiles(NodeId root) {
  if (root == kNone) return kNone;
  // A raw score that chooses (an index of a table, a side of a comparison) stays as it is written too.
  const NodeId roots[] = {root};
  const std::vector<bool> needed = graph_.reachable(roots);
  bool chooses = false;
  for (NodeId id = 0; id <= root; ++id) {
    const Node& node = graph_[id];
    chooses =
        chooses || (needed[static_cast<std::size_t>(id)] && (node.dependencies & kOnRaw) != 0 && is_step(node.op));
  }
  return tiles_.import(graph_, root, [&](NodeId id, const std::array<NodeId, 3>& children) {
    const Node& node = graph_[id];
    const NodeId a = children[0], b = children[1];
    if (chooses || (node.dependencies & kOnRaw) == 0) return kNone;
    const auto is_uniform = [&](NodeId n) { return tiles_[n].level == Level::uniform; };
    if (node.op == Op::divide && is_uniform(b))
      return multiply_uniform(tiles_, a, tiles_.binary(Op::divide, tiles_.number(1), b));
    if (node.op == Op::multiply && is_uniform(a)) return multiply_uniform(tiles_, b, a);
    if (node.op == Op::multiply && is_uniform(b)) return multiply_uniform(tiles_, a, b);
    if (node.op == Op::add || node.op == Op::subtract) return sum_lines(tiles_, node.op, a, b);
    return kNone;
  });
}

void Formula::compile() {
  const NodeId hide_all = visible_ == kNone ? kNone : hidden_score(tiles_, for_tiles(visible_));
  const NodeId hide_rest = rest_.holds == kNone ? kNone : hidden_score(tiles_, for_tiles(rest_.holds));
  derivatives_ = derive(graph_, score_);
  raw_gradient_ = uses_raw_ ? graph_.number(0) : kNone;
  std::vector<NodeId> gradients;
  for (const Derivative& d : derivatives_) {
    if (graph_[d.of].op == Op::raw) raw_gradient_ = d.gradient;
    gradients.push_back(d.gradient);
    for (const NodeId place : graph_[d.of].children) gradients.push_back(place);
  }
  gradients.push_back(raw_gradient_);
  const NodeId score = for_tiles(score_);
  const std::vector<Derivative> slopes_of_tiles = derive(tiles_, score);
  NodeId raw_slope = uses_raw_ ? tiles_.number(0) : kNone;
  for (const Derivative& d : slopes_of_tiles)
    if (tiles_[d.of].op == Op::raw) raw_slope = d.gradient;
  score_program_ = CompiledProgram(tiles_, score, {}, false);
  backward_program_ = CompiledProgram(tiles_, raw_slope, slopes_of_tiles, false);
  if (hide_all != kNone) hide_program_ = CompiledProgram(tiles_, hide_all, {}, false);
  if (hide_rest != kNone) rest_program_ = CompiledProgram(tiles_, hide_rest, {}, false);
  score_evaluator_ = Evaluator(graph_, std::span(&score_, 1));
  gradient_evaluator_ = Evaluator(graph_, gradients);
  if (pair_ == kNone) return;
  pair_derivatives_ = derive(parsed_pair_, pair_);
  std::vector<NodeId> slopes;
  for (const Derivative& d : pair_derivatives_) slopes.push_back(d.gradient);
  pair_program_ = CompiledProgram(parsed_pair_, pair_, {}, true);
  pair_backward_program_ = CompiledProgram(parsed_pair_, kNone, pair_derivatives_, false);
  pair_evaluator_ = Evaluator(parsed_pair_, std::span(&pair_, 1));
  pair_gradient_evaluator_ = Evaluator(parsed_pair_, slopes);
}

Programs Formula::programs_of(const Interpreters& interpreters) const {
  Programs programs;
  const auto fill = [&](auto& program, const auto& interpreter, const auto& plain) {
    if (plain.score) program.score = interpreter.score;
    if (plain.score) program.score_backward = interpreter.score_backward;
    if (plain.hide) program.hide = interpreter.hide;
    program.visible_tile = plain.visible_tile;
    if (plain.raw) program.raw = interpreter.raw;
    if (plain.raw) program.raw_backward = interpreter.raw_backward;
  };
  fill(programs.f32, interpreters.f32, definition_.scalar.f32);
  fill(programs.f64, interpreters.f64, definition_.scalar.f64);
  return programs;
}

namespace {

// One pair at a time, for the reference.
template <class T>
void fill_plain(TileProgram<T>& program, bool score, bool hide, bool pair) {
  if (score) {
    program.score = [](const ScoreTile<T>& tile) { of(tile.object).formula->score(tile); };
    program.score_backward = [](const ScoreTile<T>& tile) { of(tile.object).formula->score_backward(tile); };
  }
  if (hide) {
    program.hide = [](const ScoreTile<T>& tile) { of(tile.object).formula->hide(tile); };
    program.visible_tile = [](const ScoreTile<T>& tile) { return of(tile.object).formula->visible_tile(tile); };
  }
  if (pair) {
    program.raw = [](const PairTile<T>& tile) { of(tile.object).formula->raw(tile); };
    program.raw_backward = [](const PairTile<T>& tile) { of(tile.object).formula->raw_backward(tile); };
  }
}

// The hooks of a pair that is compiled already.
template <class T>
void take_pair(TileProgram<T>& program, const TileProgram<T>& compiled) {
  program.raw = compiled.raw;
  program.raw_backward = compiled.raw_backward;
  program.fast_raw = compiled.fast_raw;
  program.fast_raw_backward = compiled.fast_raw_backward;
  program.fast_prepare = compiled.fast_prepare;
  program.fast_centers = compiled.fast_centers;
}

}  // namespace

void Formula::define() {
  programs_ = {.score = score_program_.program(),
               .score_backward = backward_program_.program(),
               .hide = hide_program_.program(),
               .hide_rest = rest_program_.program(),
               .pair = pair_program_.program(),
               .pair_backward = pair_backward_program_.program(),
               .formula = this};
  MechanismDefinition& d = definition_;
  d.name = "formula";
  d.formula = text_;
  d.parameters = specs_;
  for (const ParameterSpec& spec : specs_) d.slots += spec.slots();
  d.uses_scale = reads(Op::scale);
  d.reads_head = reads(Op::head);
  entry_.reads_keys = reads(Op::keys);
  d.reads_call = reads(Op::batch) || reads(Op::queries) || entry_.reads_keys;
  d.scaled = pair_ == kNone && d.uses_scale;
  if (visible_ == kNone) form_ = Form::find(graph_, score_);
  if (form_)
    d.form = [](const void* object, const double* slots, double* coefficients, double(*slopes)[kMaxSlots]) {
      of(object).formula->form().evaluate(slots, coefficients, slopes);
    };
  std::vector<std::string> tables;
  for (const ParameterSpec& spec : specs_)
    if (spec.role == Role::table) tables.emplace_back(spec.name);
  const NodeId roots[] = {score_, visible_};
  choices_ = Choices(graph_, roots, std::move(tables));
  if (choices_) {
    entry_.inexact = [](const void* object, const CallRanges& call) {
      return of(object).formula->choices().inexact(call);
    };
    entry_.table_reads = [](const void* object, const CallRanges& call, int table) {
      return of(object).formula->choices().reads(call, table);
    };
  }
  for (const Op op : {Op::key_row, Op::key_col, Op::query_row, Op::query_col}) d.grid = d.grid || reads(op);
  // The scale is 1 where a formula does not read it.
  const bool plain_score = is_scaled_raw(graph_, score_) || graph_[score_].op == Op::raw;
  fill_plain(d.scalar.f32, !plain_score, visible_ != kNone, pair_ != kNone);
  fill_plain(d.scalar.f64, !plain_score, visible_ != kNone, pair_ != kNone);
  if (compiled_pair_) d.fast_limit = compiled_pair_->definition().fast_limit;
  d.entry = &entry_;
  entry_.info = &info_;
  entry_.object = &programs_;
  entry_.device_hooks = [](const void* object, bool offsets_seen) -> const DeviceHooks& {
    return of(object).formula->device_hooks(offsets_seen);
  };
  for (std::size_t isa = 0; isa < kIsas; ++isa) {
    const Interpreters* interpreters = interpreters_for(static_cast<Isa>(isa));
    if (!interpreters) continue;
    isa_programs_[isa] = programs_of(*interpreters);
    if (compiled_pair_) {
      const Programs* own = programs_for(*compiled_pair_, static_cast<Isa>(isa));
      take_pair(isa_programs_[isa].f32, own->f32);
      take_pair(isa_programs_[isa].f64, own->f64);
    }
    entry_.programs[isa] = &isa_programs_[isa];
  }
  d.has_index = std::ranges::any_of(index_, [](NodeId id) { return id != kNone; });
  d.index = [](const void* object, std::size_t parameter, std::int64_t offset, const TableShape& shape) {
    return of(object).formula->index(parameter, offset, shape);
  };
  d.uses_content = [](const void* object, std::span<const double>) { return of(object).formula->uses_raw(); };
  if (by_offset_ != kNone)
    d.visible_offsets = [](const void* object, const TableShape& shape, std::int64_t& first, std::int64_t& last) {
      return of(object).formula->visible_offsets(shape, first, last);
    };
}

std::int64_t Formula::index(std::size_t parameter, std::int64_t offset, const TableShape& shape) const {
  double values[kMostNodes];
  index_evaluators_[parameter].run(values, [&](const Node& node, double, double) {
    if (node.op == Op::queries) return static_cast<double>(shape.queries);
    return static_cast<double>(node.op == Op::keys ? shape.keys : offset);
  });
  const double place = std::floor(values[index_[parameter]]);
  return place >= 0 && place < 9e15 ? static_cast<std::int64_t>(place) : -1;
}

// Halves the offsets where bounds do not decide; a threshold costs two looks for each halving.
bool Formula::visible_offsets(const TableShape& shape, std::int64_t& first, std::int64_t& last) const {
  if (!offset_bounds_) return false;
  constexpr int kMostLooks = 500;
  std::array<std::array<std::int64_t, 2>, 130> waiting;  // each halving leaves one more, and is of half the length
  std::size_t count = 0;
  waiting[count++] = {first, last};
  std::int64_t begin = 1, end = 0;
  for (int looks = 0; count > 0; ++looks) {
    if (looks > kMostLooks) return false;
    const std::int64_t low = waiting[--count][0], high = waiting[count][1];
    const Interval seen = offset_bounds_.run([&](const Node& node, const Interval&, const Interval&) {
      if (node.op == Op::queries)
        return Interval::of(static_cast<double>(shape.queries), static_cast<double>(shape.queries));
      if (node.op == Op::keys) return Interval::of(static_cast<double>(shape.keys), static_cast<double>(shape.keys));
      return Interval::of(static_cast<double>(low), static_cast<double>(high));
    });
    if (seen.low == 0 && seen.high == 0) continue;
    if (seen.low == 0) {
      if (low == high) return false;
      const std::int64_t middle = low + (high - low) / 2;
      waiting[count++] = {middle + 1, high};
      waiting[count++] = {low, middle};
      continue;
    }
    if (begin <= end && end + 1 != low) return false;
    if (begin > end) begin = low;
    end = high;
  }
  first = begin;
  last = end;
  return true;
}

}  // namespace formulas

Score formula(std::string_view score, const FormulaOptions& options) {
  const auto made = std::make_shared<const formulas::Formula>(score, options);
  Score result;
  result.mechanism = &made->info();
  result.object = std::shared_ptr<const void>(made, &made->programs());
  return result;
}

}  // namespace rapt::inline v1
