#include "formulas/form.h"

#include "rapt/error.h"

namespace rapt::inline v1::formulas {
namespace {

// In the order of QuadraticForm: 1, row, col, row², col², row·col. kNone: no such term.
using Terms = std::array<NodeId, Form::kTerms>;
constexpr Terms kNothing{kNone, kNone, kNone, kNone, kNone, kNone};
constexpr int kRowPower[] = {0, 1, 0, 2, 0, 1}, kColPower[] = {0, 0, 1, 0, 2, 1};

std::optional<std::size_t> term_of(int row, int col) {
  for (std::size_t n = 0; n < Form::kTerms; ++n)
    if (kRowPower[n] == row && kColPower[n] == col) return n;
  return std::nullopt;
}

// Writes a score as a polynomial, term by term, with coefficients in a graph of their own.
class Expansion {
 public:
  Expansion(const Graph& from, Graph& to) : from_(from), to_(to), known_(static_cast<std::size_t>(from.size())) {}

  std::optional<Terms> expand(NodeId id) {
    std::optional<std::optional<Terms>>& known = known_[static_cast<std::size_t>(id)];
    if (!known) known = expand_anew(id);
    return *known;
  }

 private:
  std::optional<Terms> expand_anew(NodeId id) {
    const Node& node = from_[id];
    Terms terms = kNothing;
    if (node.level == Level::uniform) {
      if ((node.dependencies & kOnHead) != 0) return std::nullopt;
      terms[0] = to_.import(from_, id, [](NodeId, const std::array<NodeId, 3>&) { return kNone; });
      return terms;
    }
    if (node.op == Op::subtract) {
      const Op a = from_[node.children[0]].op, b = from_[node.children[1]].op;
      const bool row = a == Op::key_row && b == Op::query_row, col = a == Op::key_col && b == Op::query_col;
      if (row || col) {
        terms[row ? 1 : 2] = to_.number(1);
        return terms;
      }
    }
    if (node.op != Op::add && node.op != Op::subtract && node.op != Op::multiply && node.op != Op::negate)
      return std::nullopt;
    const std::optional<Terms> a = expand(node.children[0]);
    const std::optional<Terms> b = node.op == Op::negate ? kNothing : expand(node.children[1]);
    if (!a || !b) return std::nullopt;
    return node.op == Op::multiply ? product(*a, *b) : sum(node.op, *a, *b);
  }

  std::optional<Terms> sum(Op op, const Terms& a, const Terms& b) {
    Terms terms = a;
    for (std::size_t n = 0; n < Form::kTerms; ++n) {
      if (op == Op::negate && a[n] != kNone) terms[n] = to_.unary(Op::negate, a[n]);
      if (b[n] == kNone) continue;
      if (a[n] == kNone) terms[n] = op == Op::add ? b[n] : to_.unary(Op::negate, b[n]);
      else terms[n] = to_.binary(op, a[n], b[n]);
    }
    return terms;
  }

  std::optional<Terms> product(const Terms& a, const Terms& b) {
    Terms terms = kNothing;
    for (std::size_t n = 0; n < Form::kTerms; ++n)
      for (std::size_t m = 0; m < Form::kTerms; ++m) {
        if (a[n] == kNone || b[m] == kNone) continue;
        const auto place = term_of(kRowPower[n] + kRowPower[m], kColPower[n] + kColPower[m]);
        if (!place) return std::nullopt;
        const NodeId one = to_.binary(Op::multiply, a[n], b[m]);
        NodeId& term = terms[*place];
        term = term == kNone ? one : to_.binary(Op::add, term, one);
      }
    return terms;
  }

  const Graph& from_;
  Graph& to_;
  std::vector<std::optional<std::optional<Terms>>> known_;
};

}  // namespace

std::optional<Form> Form::find(const Graph& graph, NodeId score) {
  try {
    return find_terms(graph, score);
  } catch (const Error&) {
    return std::nullopt;  // more terms than a graph holds
  }
}

std::optional<Form> Form::find_terms(const Graph& graph, NodeId score) {
  // Most scores read something else and are recognised at once.
  const NodeId roots[] = {score};
  const std::vector<bool> needed = graph.reachable(roots);
  bool grid = false;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!needed[static_cast<std::size_t>(id)] || !is_leaf(graph[id].op)) continue;
    switch (graph[id].op) {
      case Op::key_row:
      case Op::key_col: grid = true; break;
      case Op::query_row:
      case Op::query_col:
      case Op::number:
      case Op::value: break;
      default: return std::nullopt;
    }
  }
  if (!grid) return std::nullopt;
  Form form;
  const std::optional<Terms> terms = Expansion(graph, form.graph_).expand(score);
  if (!terms) return std::nullopt;
  for (std::size_t n = 0; n < kTerms; ++n) {
    form.terms_[n] = (*terms)[n] == kNone ? form.graph_.number(0) : (*terms)[n];
    form.slopes_[n] = derive(form.graph_, form.terms_[n]);
    form.roots_.push_back(form.terms_[n]);
    for (const Derivative& slope : form.slopes_[n]) form.roots_.push_back(slope.gradient);
  }
  return form;
}

void Form::evaluate(const double* slots, double* coefficients, double (*slopes)[kMaxSlots]) const {
  std::vector<double> values(static_cast<std::size_t>(graph_.size()));
  Evaluator(graph_, roots_).run(values.data(), [&](const Node& node, double, double) {
    return node.op == Op::value ? slots[node.index] : 1.0;  // the gradient of the form itself is 1
  });
  for (std::size_t n = 0; n < kTerms; ++n) {
    coefficients[n] = values[static_cast<std::size_t>(terms_[n])];
    for (int s = 0; s < kMaxSlots; ++s) slopes[n][s] = 0;
    for (const Derivative& slope : slopes_[n])
      slopes[n][graph_[slope.of].index] = values[static_cast<std::size_t>(slope.gradient)];
  }
}

}  // namespace rapt::inline v1::formulas
