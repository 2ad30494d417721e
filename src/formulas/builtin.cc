#include "formulas/builtin.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "formulas/known_pair.h"
#include "formulas/parser.h"

namespace rapt::inline v1::formulas {
namespace {

constexpr std::array kFormulas{
    BuiltinFormula{.mechanism = "dot", .score = "raw"},
    BuiltinFormula{.mechanism = "scaled_dot", .score = "raw*scale"},
    BuiltinFormula{.mechanism = "bilinear", .why = "W multiplies whole queries; pass q W as the queries"},
    // Without the maps Wq and Wk.
    BuiltinFormula{.mechanism = "additive", .score = "raw", .pair = "w*tanh(q+k)"},
    BuiltinFormula{.mechanism = "cosine", .why = "rows have unit length; pass q/‖q‖ and k/‖k‖, then tau*raw"},
    BuiltinFormula{.mechanism = "distance", .score = "-gamma*raw", .pair = "(q-k)^2"},
    BuiltinFormula{.mechanism = "alibi", .score = "raw*scale - m*abs(i-j)"},
    // The buckets of 32 rows up to a distance of 128, in both directions.
    BuiltinFormula{.mechanism = "t5",
                   .score = "raw*scale + table[where(j > i, 16, 0) + where(abs(j-i) < 8, abs(j-i), "
                            "min(15, 8 + floor(log(max(abs(j-i), 1)/8)/log(16)*8)))]"},
    BuiltinFormula{.mechanism = "shaw", .why = "its table is of vectors"},
    BuiltinFormula{.mechanism = "transformer_xl", .why = "its table is of vectors"},
    BuiltinFormula{.mechanism = "quadratic", .score = "-alpha*((row - 2*center[0])*row + (col - 2*center[1])*col)"},
    BuiltinFormula{.mechanism = "gaussian",
                   .score = "-0.5*((gamma[0,0]*(row-center[0]) + gamma[0,1]*(col-center[1]))^2 + "
                            "(gamma[1,0]*(row-center[0]) + gamma[1,1]*(col-center[1]))^2)"},
    BuiltinFormula{.mechanism = "learned_2d", .why = "its tables are of vectors"},
};

struct Parsed {
  Graph graph, pair_graph;
  NodeId score = kNone, pair = kNone;
  std::vector<NamedParameter> parameters;

  Parsed(std::string_view score_text, std::string_view pair_text) {
    std::vector<NamedParameter> none;
    score = parse(Part::score, score_text, graph, parameters);
    if (pair_text.empty()) return;
    pair = parse(Part::pair, pair_text, pair_graph, none);
    const std::optional<KnownPair> known = known_pair(pair_graph, pair);
    if (!known || known->factor != 1) return;
    pair_graph = Graph();
    pair = parse(Part::pair, known->text, pair_graph, none);
  }

  // c of c·tanh(…); 0: not of that form.
  double cap() const {
    const Node& root = graph[score];
    if (root.op != Op::multiply) return 0;
    const Node &a = graph[root.children[0]], &b = graph[root.children[1]];
    if (a.op == Op::number && b.op == Op::tanh) return a.value;
    return b.op == Op::number && a.op == Op::tanh ? b.value : 0;
  }

  bool operator==(const Parsed& other) const {
    const auto same_name = [](const NamedParameter& a, const NamedParameter& b) { return a.name == b.name; };
    return std::ranges::equal(parameters, other.parameters, same_name) &&
           Graph::same(graph, score, other.graph, other.score) &&
           Graph::same(pair_graph, pair, other.pair_graph, other.pair);
  }
};

}  // namespace

EqualMechanism equal_mechanism(std::string_view score, std::string_view pair) {
  // With a pair of its own, the scale is 1 unless it is set.
  const Parsed given(score.empty() ? (pair.empty() ? "raw*scale" : "raw") : score, pair);
  for (const BuiltinFormula& builtin : kFormulas)
    if (builtin.is_formula() && given == Parsed(builtin.score, builtin.pair)) return {builtin.mechanism, 0};
  const double cap = given.cap();
  if (!(cap > 0)) return {};
  char number[32];
  const std::string c(number, std::to_chars(number, number + sizeof number, cap).ptr);
  for (const BuiltinFormula& builtin : kFormulas)
    if (builtin.is_formula() &&
        given == Parsed(c + "*tanh((" + std::string(builtin.score) + ")/" + c + ")", builtin.pair))
      return {builtin.mechanism, cap};
  return {};
}

std::span<const BuiltinFormula> builtin_formulas() { return kFormulas; }

const BuiltinFormula* builtin_formula(std::string_view mechanism) {
  const auto found = std::ranges::find(kFormulas, mechanism, &BuiltinFormula::mechanism);
  return found == kFormulas.end() ? nullptr : &*found;
}

}  // namespace rapt::inline v1::formulas
