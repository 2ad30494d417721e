#include "formulas/tree.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

namespace trees {
namespace {

bool is_operator(const std::string& name) {
  static const char* const kOperators[] = {"+", "-", "*", "/", "^", "<", "<=", ">", ">=", "==", "!=", "and", "or"};
  for (const char* one : kOperators)
    if (name == one) return true;
  return false;
}

Tree constant(double x) { return {.name = "", .number = x, .children = {}}; }
Tree make(const char* name, std::vector<Tree> children = {}) {
  return {.name = name, .number = 0, .children = std::move(children)};
}

}  // namespace

std::int64_t Numbers::size() const {
  std::int64_t product = 1;
  for (const std::int64_t n : sizes) product *= n;
  return product;
}

double Numbers::at(std::int64_t head, std::int64_t row, std::int64_t col) const {
  const std::int64_t width = sizes.size() == 2 ? sizes[1] : 1;
  return data[static_cast<std::size_t>((per_head ? head * size() : 0) + row * width + col)];
}

std::string text(const Tree& tree) {
  if (tree.name.empty()) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.17g", tree.number);
    return tree.number < 0 ? "(" + std::string(buffer) + ")" : std::string(buffer);
  }
  if (is_operator(tree.name))
    return "(" + text(tree.children[0]) + " " + tree.name + " " + text(tree.children[1]) + ")";
  if (tree.name == "negate") return "(-" + text(tree.children[0]) + ")";
  if (tree.name == "not") return "(not " + text(tree.children[0]) + ")";
  if (tree.children.empty()) return tree.name;
  const bool table = tree.name == "t" || tree.name == "u";
  std::string all = tree.name + (table ? "[" : "(");
  for (std::size_t n = 0; n < tree.children.size(); ++n) all += (n ? "," : "") + text(tree.children[n]);
  return all + (table ? "]" : ")");
}

namespace {

// No operation has more.
using Operands = std::array<double, 3>;

const std::unordered_map<std::string_view, double (*)(const Pair&)> kLeaves{
    {"raw", [](const Pair& p) { return p.raw; }},
    {"scale", [](const Pair& p) { return p.scale; }},
    {"i", [](const Pair& p) { return static_cast<double>(p.i); }},
    {"j", [](const Pair& p) { return static_cast<double>(p.j); }},
    {"head", [](const Pair& p) { return static_cast<double>(p.head); }},
    {"batch", [](const Pair& p) { return static_cast<double>(p.batch); }},
    {"queries", [](const Pair& p) { return static_cast<double>(p.queries); }},
    {"keys", [](const Pair& p) { return static_cast<double>(p.keys); }},
    {"row", [](const Pair& p) { return static_cast<double>(p.row); }},
    {"col", [](const Pair& p) { return static_cast<double>(p.col); }},
    {"q", [](const Pair& p) { return p.q; }},
    {"k", [](const Pair& p) { return p.k; }},
    {"w", [](const Pair& p) { return p.w; }},
};

const std::unordered_map<std::string_view, double (*)(const Operands&)> kOperations{
    {"+", [](const Operands& x) { return x[0] + x[1]; }},
    {"-", [](const Operands& x) { return x[0] - x[1]; }},
    {"*", [](const Operands& x) { return x[0] * x[1]; }},
    {"/", [](const Operands& x) { return x[0] / x[1]; }},
    {"^", [](const Operands& x) { return std::pow(x[0], x[1]); }},
    {"<", [](const Operands& x) { return x[0] < x[1] ? 1.0 : 0; }},
    {"<=", [](const Operands& x) { return x[0] <= x[1] ? 1.0 : 0; }},
    {">", [](const Operands& x) { return x[0] > x[1] ? 1.0 : 0; }},
    {">=", [](const Operands& x) { return x[0] >= x[1] ? 1.0 : 0; }},
    {"==", [](const Operands& x) { return x[0] == x[1] ? 1.0 : 0; }},
    {"!=", [](const Operands& x) { return x[0] != x[1] ? 1.0 : 0; }},
    {"and", [](const Operands& x) { return x[0] != 0 && x[1] != 0 ? 1.0 : 0; }},
    {"or", [](const Operands& x) { return x[0] != 0 || x[1] != 0 ? 1.0 : 0; }},
    {"not", [](const Operands& x) { return x[0] == 0 ? 1.0 : 0; }},
    {"negate", [](const Operands& x) { return -x[0]; }},
    {"where", [](const Operands& x) { return x[0] != 0 ? x[1] : x[2]; }},
    {"abs", [](const Operands& x) { return std::fabs(x[0]); }},
    {"sign", [](const Operands& x) { return x[0] > 0   ? 1.0
                                            : x[0] < 0 ? -1
                                                       : 0; }},
    {"floor", [](const Operands& x) { return std::floor(x[0]); }},
    {"exp", [](const Operands& x) { return std::exp(x[0]); }},
    {"log", [](const Operands& x) { return std::log(x[0]); }},
    {"sqrt", [](const Operands& x) { return std::sqrt(x[0]); }},
    {"tanh", [](const Operands& x) { return std::tanh(x[0]); }},
    {"sigmoid", [](const Operands& x) { return 1 / (1 + std::exp(-x[0])); }},
    {"erf", [](const Operands& x) { return std::erf(x[0]); }},
    {"sin", [](const Operands& x) { return std::sin(x[0]); }},
    {"cos", [](const Operands& x) { return std::cos(x[0]); }},
    {"min", [](const Operands& x) { return std::fmin(x[0], x[1]); }},
    {"max", [](const Operands& x) { return std::fmax(x[0], x[1]); }},
    {"clip", [](const Operands& x) { return std::fmin(std::fmax(x[0], x[1]), x[2]); }},
};

double applied(const std::string& name, const Operands& x, const Pair& p) {
  if (name == "t" || name == "u") {
    const Numbers& table = p.parameters->at(name);
    std::int64_t place[2] = {};
    for (std::size_t n = 0; n < table.sizes.size(); ++n) {
      // Only an index that is moved by its error is outside.
      if (!(x[n] >= 0 && x[n] < static_cast<double>(table.sizes[n]))) return std::numeric_limits<double>::infinity();
      place[n] = static_cast<std::int64_t>(x[n]);
    }
    return table.at(p.head, place[0], place[1]);
  }
  const auto found = kOperations.find(name);
  if (found == kOperations.end()) throw std::logic_error("no such operation: " + name);
  return found->second(x);
}

}  // namespace

double evaluate(const Tree& tree, const Pair& p) {
  if (tree.name.empty()) return tree.number;
  if (tree.children.empty()) {
    const auto leaf = kLeaves.find(tree.name);
    return leaf == kLeaves.end() ? p.parameters->at(tree.name).at(p.head, 0, 0) : leaf->second(p);
  }
  Operands x{};
  for (std::size_t n = 0; n < tree.children.size(); ++n) x.at(n) = evaluate(tree.children[n], p);
  return applied(tree.name, x, p);
}

namespace {

// How much the result may move where the arguments move by their errors: by the extremes over them.
template <class F>
Bounded moved(const std::vector<Bounded>& x, double eps, const F& f) {
  Operands at{};
  for (std::size_t n = 0; n < x.size(); ++n) at.at(n) = x[n].value;
  Bounded y{.value = f(at)};
  for (std::size_t n = 0; n < x.size(); ++n) {
    y.unsure = y.unsure || x[n].unsure;
    double most = 0;
    for (const double part : {-1.0, -0.5, 0.5, 1.0}) {
      at[n] = x[n].value + part * x[n].error;
      most = std::fmax(most, std::fabs(f(at) - y.value));
    }
    at[n] = x[n].value;
    y.error += 2 * most;
  }
  y.error += eps * std::fabs(y.value);
  return y;
}

bool is_step(const std::string& name) {
  static const char* const kSteps[] = {"<", "<=", ">", ">=", "==", "!=", "floor", "sign"};
  for (const char* step : kSteps)
    if (name == step) return true;
  return false;
}

}  // namespace

Bounded bounded(const Tree& tree, const Pair& p, double eps, double raw_error) {
  if (tree.children.empty()) {
    Bounded y{.value = evaluate(tree, p)};
    const bool whole = y.value == std::floor(y.value);
    y.error = tree.name == "raw" ? raw_error : (whole ? 0 : eps * std::fabs(y.value));
    return y;
  }
  std::vector<Bounded> x;
  for (const Tree& child : tree.children) x.push_back(bounded(child, p, eps, raw_error));
  Bounded y = moved(x, is_step(tree.name) ? 0 : eps, [&](const Operands& at) { return applied(tree.name, at, p); });
  const bool table = tree.name == "t" || tree.name == "u";
  if ((is_step(tree.name) || table) && y.error > eps * std::fabs(y.value)) y.unsure = true;
  if (tree.name == "floor" && x[0].error > 0 &&
      std::floor(x[0].value + x[0].error) != std::floor(x[0].value - x[0].error))
    y.unsure = true;
  if (tree.name == "where") {
    const Bounded& chosen = x[0].value != 0 ? x[1] : x[2];
    y = {.value = chosen.value, .error = chosen.error, .unsure = x[0].unsure || chosen.unsure};
  }
  return y;
}

double Maker::real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }

Tree Maker::leaf(Of of) {
  if (of == Of::pair) {
    static const char* const kNames[] = {"q", "k", "w", "q", "k"};
    return below(6) == 0 ? constant(real(-2, 2)) : make(kNames[below(5)]);
  }
  if (of == Of::positions) {
    static const char* const kNames[] = {"i", "j", "head", "batch", "queries", "keys", "row", "col"};
    if (below(3) == 0) return make("-", {make("i"), make("j")});
    return below(4) == 0 ? constant(below(9)) : make(kNames[below(8)]);
  }
  switch (below(10)) {
    case 9: return make("*", {constant(0.25), make(below(2) ? "row" : "col")});
    case 0:
    case 1: return make("raw");
    case 2: return make("a");
    case 3: return make("b");
    case 4: return make("t", {place(table_)});
    case 5: return make("u", {place(rows_), place(cols_)});
    case 6: return constant(real(-2, 2));
    case 7: return make("*", {constant(0.125), make("-", {make("j"), make("i")})});
    default: return make("*", {constant(0.0625), leaf(Of::positions)});
  }
}

// Some whole number below the size: of the offset, of one position, of the head, or a fixed one.
Tree Maker::place(std::int64_t size) {
  const Tree last = constant(static_cast<double>(size - 1));
  const auto clipped = [&](Tree x) { return make("clip", {std::move(x), constant(0), last}); };
  switch (below(6)) {
    case 0: return constant(below(static_cast<int>(size)));
    case 1: return clipped(make("+", {make("-", {make("j"), make("i")}), constant(static_cast<double>(size / 2))}));
    case 2: return clipped(make(below(2) ? "i" : "j"));
    case 3:
      return clipped(make("floor", {make("*", {constant(0.3), make("abs", {make("-", {make("i"), make("j")})})})}));
    case 4: return clipped(make("+", {make("head"), make("batch")}));
    default: return clipped(make("-", {make("+", {make("i"), make("j")}), make("*", {constant(2), make("head")})}));
  }
}

Tree Maker::condition(Of of, int depth) {
  static const char* const kCompare[] = {"<", "<=", ">", ">=", "==", "!="};
  if (depth > 0 && below(3) == 0) {
    if (below(3) == 0) return make("not", {condition(of, depth - 1)});
    return make(below(2) ? "and" : "or", {condition(of, depth - 1), condition(of, depth - 1)});
  }
  return make(kCompare[below(6)], {number(of, depth - 1), number(of, depth - 1)});
}

Tree Maker::number(Of of, int depth) {
  if (depth <= 0) return leaf(of);
  if (of == Of::positions) {
    static const char* const kPlain[] = {"+", "-", "min", "max"};
    if (below(3) == 0) return make(below(3) ? "abs" : "sign", {number(of, depth - 1)});
    return make(kPlain[below(4)], {number(of, depth - 1), number(of, depth - 1)});
  }
  const auto next = [&] { return number(of, depth - 1); };
  const auto above = [&](double low) { return make("+", {make("abs", {next()}), constant(low)}); };
  switch (below(20)) {
    case 18: return make("sign", {next()});
    case 19: return make("floor", {next()});
    case 0:
    case 1: return make("+", {next(), next()});
    case 2: return make("-", {next(), next()});
    case 3:
    case 4: return make("*", {next(), next()});
    case 5: return make("/", {next(), above(1)});
    case 6: return make("^", {above(0.25), constant(below(2) ? 0.5 : real(-2, 2))});
    case 7: return make("^", {next(), constant(2 + below(2))});
    case 8: return make("exp", {make("clip", {next(), constant(-3), constant(1)})});
    case 9: return make("log", {above(0.5)});
    case 10: return make("sqrt", {above(0.25)});
    case 11: return make("tanh", {next()});
    case 12: return make(below(2) ? "sigmoid" : "erf", {next()});
    case 13: return make(below(2) ? "sin" : "cos", {next()});
    case 14: return make(below(2) ? "min" : "max", {next(), next()});
    case 15: return make("where", {condition(of == Of::score ? Of::positions : of, 1), next(), next()});
    case 16: return make(below(2) ? "abs" : "negate", {next()});
    default: return make("clip", {next(), constant(-1.5), constant(1.25)});
  }
}

Tree Maker::score(int depth) { return number(Of::score, depth); }
Tree Maker::pair(int depth) { return number(Of::pair, depth); }
Tree Maker::visible(int depth) { return condition(Of::positions, depth); }

}  // namespace trees
