#include "formulas/hook_source.h"

#include <cmath>
#include <cstdio>
#include <span>

#include "formulas/formula.h"
#include "formulas/unknown.h"

namespace rapt::inline v1::formulas {
namespace {

// In f32, to the last bit.
std::string literal(double value) {
  const auto x = static_cast<float>(value);
  if (std::isnan(x)) return "V(__builtin_bit_cast(float, 0x7fffffffu))";
  if (std::isinf(x)) return std::string("V(__builtin_bit_cast(float, ") + (x > 0 ? "0x7f800000u))" : "0xff800000u))");
  char text[48];
  std::snprintf(text, sizeof text, "V(%af)", static_cast<double>(x));
  return text;
}

const char* function_of(Op op) {
  switch (op) {
    case Op::absolute: return "abs";
    case Op::sign: return "sign";
    case Op::floor: return "floor";
    case Op::exp: return "exp";
    case Op::log: return "logarithm";
    case Op::sqrt: return "root";
    case Op::tanh: return "tanh";
    case Op::sigmoid: return "sigmoid";
    case Op::erf: return "error_function";
    case Op::sin: return "sine";
    case Op::cos: return "cosine";
    case Op::minimum: return "min";
    case Op::maximum: return "max";
    case Op::power: return "power";
    case Op::divide: return "quotient";
    default: return nullptr;
  }
}

const char* operator_of(Op op) {
  switch (op) {
    case Op::add: return " + ";
    case Op::subtract: return " - ";
    case Op::multiply: return " * ";
    case Op::less: return " < ";
    case Op::less_equal: return " <= ";
    case Op::equal: return " == ";
    case Op::logical_and: return " && ";
    case Op::logical_or: return " || ";
    default: return nullptr;
  }
}

bool is_grid(Op op) { return op == Op::query_row || op == Op::query_col || op == Op::key_row || op == Op::key_col; }

class Writer {
 public:
  // by_read: the slope by one read of a table, instead of the value.
  explicit Writer(const Graph& graph, bool by_read = false) : graph_(graph), by_read_(by_read) {}

  // The tables of the reads that were written, in the order of their numbers.
  const std::vector<int>& table_reads() const { return table_reads_; }

  std::optional<std::string> write(NodeId root, const std::string& result) {
    const NodeId roots[] = {root};
    const std::optional<std::string> text = nodes(roots);
    if (!text) return std::nullopt;
    return *text + "    return " + result + "(" + name(root) + ");\n";
  }

  // All of them as N.
  std::optional<std::string> write_list(std::span<const NodeId> roots) {
    const std::optional<std::string> text = nodes(roots);
    if (!text) return std::nullopt;
    std::string list;
    for (const NodeId root : roots) list += (list.empty() ? "N(" : ", N(") + name(root) + ")";
    return *text + "    return {" + list + "};\n";
  }

 private:
  std::optional<std::string> nodes(std::span<const NodeId> roots) {
    const std::vector<bool> needed = graph_.reachable(roots);
    std::string text;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!needed[static_cast<std::size_t>(id)] || is_grid(graph_[id].op)) continue;
      const std::string value = value_of(id);
      if (value.empty()) return std::nullopt;
      text += "    const auto " + name(id) + " = " + value + ";\n";
    }
    return text;
  }

  static std::string name(NodeId id) { return "x" + std::to_string(id); }
  std::string child(const Node& node, std::size_t n) const { return name(node.children[n]); }

  // Empty: not written.
  std::string value_of(NodeId id) {
    const Node& node = graph_[id];
    if (std::string difference = grid_difference(node); !difference.empty()) return difference;
    for (const NodeId c : node.children)
      if (c != kNone && is_grid(graph_[c].op)) return {};
    if (is_leaf(node.op)) return leaf(node);
    if (node.op == Op::negate) return "-" + child(node, 0);
    if (node.op == Op::logical_not) return "!" + child(node, 0);
    if (const char* function = function_of(node.op))
      return std::string(function) + "(" + child(node, 0) + (node.children[1] == kNone ? "" : ", " + child(node, 1)) +
             ")";
    if (const char* symbol = operator_of(node.op)) return child(node, 0) + symbol + child(node, 1);
    if (node.op != Op::where) return {};
    if (node.condition) return "(" + child(node, 0) + " ? " + child(node, 1) + " : " + child(node, 2) + ")";
    return "where(" + child(node, 0) + ", " + child(node, 1) + ", " + child(node, 2) + ")";
  }

  std::string grid_difference(const Node& node) const {
    if (node.op != Op::subtract) return {};
    const Op a = graph_[node.children[0]].op, b = graph_[node.children[1]].op;
    if (a == Op::key_row && b == Op::query_row) return "at.row";
    if (a == Op::query_row && b == Op::key_row) return "-at.row";
    if (a == Op::key_col && b == Op::query_col) return "at.col";
    return a == Op::query_col && b == Op::key_col ? "-at.col" : "";
  }

  std::string leaf(const Node& node) {
    switch (node.op) {
      case Op::number: return node.condition ? (node.value != 0 ? "true" : "false") : literal(node.value);
      case Op::raw: return "raw";
      case Op::scale: return "at.scale";
      case Op::query: return "at.i";
      case Op::key: return "at.j";
      case Op::offset: return "at.delta";
      case Op::head: return "V(at.head)";
      case Op::batch: return "V(at.batch)";
      case Op::queries: return "V(at.queries)";
      case Op::keys: return "V(at.keys)";
      case Op::value:
      case Op::relative: return "p[" + std::to_string(node.index) + "]";
      case Op::table: {
        const auto place = [&](std::size_t n) {
          return node.children[n] == kNone ? std::string("V(0)") : "value_of(" + child(node, n) + ")";
        };
        const std::string read = "(at, " + std::to_string(node.index) + ", " + place(0) + ", " + place(1);
        if (!by_read_) return "table_at" + read + ")";
        table_reads_.push_back(node.index);
        return "table_read" + read + ", read == " + std::to_string(table_reads_.size() - 1) + ", place)";
      }
      case Op::pair_q: return "q";
      case Op::pair_k: return "k";
      case Op::pair_w: return "w";
      default: return {};
    }
  }

  const Graph& graph_;
  bool by_read_;
  std::vector<int> table_reads_;
};

const char* name_of(Role role) {
  switch (role) {
    case Role::value: return "value";
    case Role::relative_value: return "relative_value";
    case Role::pair_weight: return "pair_weight";
    default: return "table";
  }
}

}  // namespace

std::optional<std::string> hook_body(const Graph& graph, NodeId root, const std::string& result) {
  return Writer(graph).write(root, result);
}

// Names of parameters do not matter to kernels: formulas that differ in them alone share theirs.
DeviceHooks Formula::write_hooks(bool offsets_seen) const {
  const Condition& condition = offsets_seen ? rest_ : all_;
  Graph graph;
  const auto copy = [&](NodeId root) {
    return graph.import(graph_, root, [](NodeId, const std::array<NodeId, 3>&) { return kNone; });
  };
  NodeId score = copy(score_), seen = kNone;
  if (condition.holds != kNone) {
    seen = copy(condition.holds);
    // A pair that is neither seen nor hidden has a score of NaN.
    if (condition.open != kNone) {
      const NodeId open = copy(condition.open);
      score = graph.where(open, graph.number(std::nan("")), score);
      seen = graph.binary(Op::logical_or, seen, open);
    }
  }
  DeviceHooks hooks;
  hooks.has_score = !is_scaled_raw(graph, score);
  hooks.is_plain = seen == kNone && pair_ == kNone && !definition_.grid;
  std::string text = "struct Formula {\n";
  text += "  static constexpr std::string_view formula = \"formula\";\n";
  if (definition_.grid) text += "  static constexpr bool grid = true;\n";
  std::string list;
  for (const ParameterSpec& spec : specs_) {
    list += "      ParameterSpec{.name = \"\", .role = Role::" + std::string(name_of(spec.role)) + ", .sizes = {" +
            std::to_string(spec.sizes[0]) + ", " + std::to_string(spec.sizes[1]) + "}},\n";
    hooks.is_plain = hooks.is_plain && spec.role == Role::value;
  }
  if (!list.empty()) text += "  static constexpr std::array parameters{\n" + list + "  };\n";
  const auto add = [&](const Graph& from, NodeId root, const std::string& head, const std::string& result) {
    const std::optional<std::string> body = hook_body(from, root, result);
    if (body) text += head + " const {\n" + *body + "  }\n";
    return body.has_value();
  };
  bool written = true;
  if (pair_ != kNone)
    written = add(parsed_pair_, pair_, "  template <class N>\n  RAPT_DEVICE N pair(N q, N k, N w)", "N");
  if (hooks.has_score)
    written = written && add(graph, score,
                             "  template <class N, class P, class A>\n"
                             "  RAPT_DEVICE N score(N raw, const P& p, const A& at)",
                             "N");
  Writer reads(graph, true);
  const std::optional<std::string> slope = hooks.has_score ? reads.write(score, "Dual<V, 1>") : std::nullopt;
  if (slope && !reads.table_reads().empty()) {
    text +=
        "  template <class P, class A>\n"
        "  RAPT_DEVICE Dual<V, 1> slope_of_read(V raw, const P& p, const A& at, int read, V (&place)[2]) const {\n" +
        *slope + "  }\n";
    hooks.table_reads = reads.table_reads();
  }
  if (form_) {
    const std::optional<std::string> form = Writer(form_->graph()).write_list(form_->terms());
    hooks.has_form = form.has_value();
    if (form)
      text +=
          "  template <class N, class P>\n  RAPT_DEVICE QuadraticForm<N> form(const P& p) const {\n" + *form + "  }\n";
  }
  if (seen != kNone)
    written =
        written &&
        add(graph, seen, "  template <class P, class A>\n  RAPT_DEVICE bool visible(const A& at, const P& p)", "bool");
  if (written) hooks.source = text + "};\n";
  return hooks;
}

const DeviceHooks& Formula::device_hooks(bool offsets_seen) const {
  const std::size_t n = offsets_seen ? 1 : 0;
  std::call_once(hooks_written_[n], [&] { hooks_[n] = write_hooks(offsets_seen); });
  return hooks_[n];
}

}  // namespace rapt::inline v1::formulas
