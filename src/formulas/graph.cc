#include "formulas/graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace rapt::inline v1::formulas {
namespace {

bool is_condition(Op op) {
  return op == Op::less || op == Op::less_equal || op == Op::equal || op == Op::logical_and || op == Op::logical_or ||
         op == Op::logical_not;
}

bool commutes(Op op) {
  return op == Op::add || op == Op::multiply || op == Op::equal || op == Op::logical_and || op == Op::logical_or;
}

Level level_of(Op op) {
  switch (op) {
    case Op::query:
    case Op::query_row:
    case Op::query_col:
    case Op::pair_q: return Level::query;
    case Op::key:
    case Op::key_row:
    case Op::key_col:
    case Op::pair_k: return Level::key;
    case Op::offset:
    case Op::relative: return Level::offset;
    case Op::raw:
    case Op::grad: return Level::pair;
    default: return Level::uniform;
  }
}

std::uint8_t dependency_of(Op op) {
  switch (op) {
    case Op::raw:
    case Op::grad: return kOnRaw;
    case Op::head:
    case Op::batch: return kOnHead;
    case Op::value:
    case Op::relative:
    case Op::table:
    case Op::pair_w: return kOnParameters;
    case Op::scale: return kOnScale;
    case Op::number:
    case Op::queries:
    case Op::keys: return 0;
    default: return is_leaf(op) ? kOnPlaces : 0;
  }
}

// Whether multiplying by 1/c is dividing by c: of powers of two.
bool has_reciprocal(double c) {
  int exponent = 0;
  return std::abs(std::frexp(c, &exponent)) == 0.5 && std::abs(exponent) < 100;
}

std::size_t hash_of(const Node& node) {
  std::uint64_t h = static_cast<std::uint64_t>(node.op) * 0x9E3779B97F4A7C15ULL;
  const auto mix = [&](std::uint64_t x) { h = (h ^ x) * 0xBF58476D1CE4E5B9ULL, h ^= h >> 29; };
  for (const NodeId child : node.children) mix(static_cast<std::uint64_t>(child + 1));
  mix(static_cast<std::uint64_t>(node.index));
  mix(std::bit_cast<std::uint64_t>(node.value));
  return static_cast<std::size_t>(h);
}

bool is_same(const Node& a, const Node& b) {
  return a.op == b.op && a.children == b.children && a.index == b.index && a.condition == b.condition &&
         std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value);
}

}  // namespace

double apply(Op op, double a, double b, double c) {
  switch (op) {
    case Op::negate: return -a;
    case Op::absolute: return std::abs(a);
    case Op::sign: return a > 0 ? 1 : (a < 0 ? -1 : a);
    case Op::floor: return std::floor(a);
    case Op::exp: return std::exp(a);
    case Op::log: return std::log(a);
    case Op::sqrt: return std::sqrt(a);
    case Op::tanh: return std::tanh(a);
    case Op::sigmoid: return a < 0 ? std::exp(a) / (1 + std::exp(a)) : 1 / (1 + std::exp(-a));
    case Op::erf: return std::erf(a);
    case Op::sin: return std::sin(a);
    case Op::cos: return std::cos(a);
    case Op::logical_not: return a == 0 ? 1 : 0;
    case Op::add: return a + b;
    case Op::subtract: return a - b;
    case Op::multiply: return a * b;
    case Op::divide: return a / b;
    // NaN stays, whichever argument it is.
    case Op::minimum: return std::isnan(a) || a < b ? a : b;
    case Op::maximum: return std::isnan(a) || a > b ? a : b;
    case Op::power: return std::pow(a, b);
    case Op::less: return a < b ? 1 : 0;
    case Op::less_equal: return a <= b ? 1 : 0;
    case Op::equal: return a == b ? 1 : 0;
    case Op::logical_and: return a != 0 && b != 0 ? 1 : 0;
    case Op::logical_or: return a != 0 || b != 0 ? 1 : 0;
    case Op::where: return a != 0 ? b : c;
    case Op::live_multiply: return a == 0 ? 0 : a * b;
    case Op::keep: return a != 0 ? b : 0;
    case Op::multiply_add: return a * b + c;
    case Op::multiply_subtract: return a * b - c;
    case Op::negated_multiply_add: return c - a * b;
    case Op::subtract_both: return a - b - c;
    default: return std::numeric_limits<double>::quiet_NaN();
  }
}

NodeId Graph::insert(Node node) {
  node.condition = node.condition || is_condition(node.op);
  node.level = level_of(node.op);
  node.dependencies = dependency_of(node.op);
  bool constant = !is_leaf(node.op) && node.op != Op::reduce;
  for (const NodeId child : node.children) {
    if (child == kNone) continue;
    const Node& from = (*this)[child];
    node.level = join(node.level, from.level);
    node.dependencies |= from.dependencies;
    constant = constant && from.op == Op::number;
  }
  if (node.op == Op::reduce) node.level = static_cast<Level>(node.index);
  if (constant) {
    const auto value = [&](std::size_t n) { return node.children[n] == kNone ? 0 : (*this)[node.children[n]].value; };
    const bool condition = node.condition || (node.op == Op::where && (*this)[node.children[1]].condition);
    node = {.op = Op::number, .condition = condition, .value = apply(node.op, value(0), value(1), value(2))};
  }
  if (buckets_.size() < 2 * (nodes_.size() + 1)) {
    buckets_.assign(std::max<std::size_t>(64, 4 * (nodes_.size() + 1)), kNone);
    for (NodeId id = 0; id < size(); ++id) {
      std::size_t at = hash_of((*this)[id]) % buckets_.size();
      while (buckets_[at] != kNone) at = (at + 1) % buckets_.size();
      buckets_[at] = id;
    }
  }
  std::size_t at = hash_of(node) % buckets_.size();
  for (; buckets_[at] != kNone; at = (at + 1) % buckets_.size())
    if (is_same((*this)[buckets_[at]], node)) return buckets_[at];
  if (nodes_.size() >= static_cast<std::size_t>(most_nodes_))
    throw TooLarge("expected at most " + std::to_string(most_nodes_) + " operations" +
                       (most_nodes_ == kMostOperations ? "" : ", derivatives included") + ", got more",
                   place_);
  const auto id = static_cast<NodeId>(nodes_.size());
  buckets_[at] = id;
  Affine affine;
  if (node.op == Op::number) affine = {true, 0, 0, node.value};
  else if (node.op == Op::query) affine = {true, 1, 0, 0};
  else if (node.op == Op::key) affine = {true, 0, 1, 0};
  else if (node.op == Op::offset) affine = {true, -1, 1, 0};
  node.place = place_;
  nodes_.push_back(node);
  affine_.push_back(affine);
  return id;
}

NodeId Graph::number(double value) { return insert({.op = Op::number, .value = value}); }
NodeId Graph::condition(bool value) {
  return insert({.op = Op::number, .condition = true, .value = value ? 1.0 : 0.0});
}
NodeId Graph::leaf(Op op, int index) { return insert({.op = op, .index = static_cast<std::int16_t>(index)}); }

NodeId Graph::table(int index, NodeId row, NodeId col) {
  return insert({.op = Op::table, .index = static_cast<std::int16_t>(index), .children = {row, col, kNone}});
}

NodeId Graph::unary(Op op, NodeId a) {
  const Node from = (*this)[a];
  if (op == Op::negate) {
    if (from.op == Op::negate) return from.children[0];
    if (from.op == Op::subtract) return binary(Op::subtract, from.children[1], from.children[0]);
  }
  if (op == Op::logical_not && from.op == Op::logical_not) return from.children[0];
  if (op == Op::absolute && from.op == Op::negate) return unary(op, from.children[0]);
  if (op == Op::absolute && from.op == Op::absolute) return a;
  const NodeId id = insert({.op = op, .children = {a, kNone, kNone}});
  if (op == Op::negate && affine_of(a).known) {
    const Affine x = affine_of(a);
    affine_[static_cast<std::size_t>(id)] = {true, -x.query, -x.key, -x.constant};
  }
  return id;
}

// q·(i − j) + c, which depends on the offset alone.
NodeId Graph::by_offset(const Affine& sum) {
  NodeId id = leaf(Op::offset);
  if (sum.key == -1) id = unary(Op::negate, id);
  else if (sum.key != 1) id = insert({.op = Op::multiply, .children = {number(sum.key), id, kNone}});
  affine_[static_cast<std::size_t>(id)] = {true, -sum.key, sum.key, 0};
  if (sum.constant == 0) return id;
  id = insert({.op = Op::add, .children = {id, number(sum.constant), kNone}});
  affine_[static_cast<std::size_t>(id)] = sum;
  return id;
}

NodeId Graph::arithmetic(Op op, NodeId a, NodeId b) {
  const Affine x = affine_of(a), y = affine_of(b);
  Affine sum;
  if (x.known && y.known) {
    if (op == Op::multiply && x.query == 0 && x.key == 0)
      sum = {true, x.constant * y.query, x.constant * y.key, x.constant * y.constant};
    if (op == Op::multiply && y.query == 0 && y.key == 0)
      sum = {true, x.query * y.constant, x.key * y.constant, x.constant * y.constant};
    const double sign = op == Op::add ? 1 : -1;
    if (op == Op::add || op == Op::subtract)
      sum = {true, x.query + sign * y.query, x.key + sign * y.key, x.constant + sign * y.constant};
    // Positions are whole numbers: such sums are exact whichever way they are taken.
    const auto whole = [](double v) { return v == std::floor(v) && std::abs(v) < (1 << 20); };
    const bool exact = whole(sum.query) && whole(sum.key) && whole(sum.constant);
    if (sum.known && exact && sum.key != 0 && sum.query == -sum.key) return by_offset(sum);
  }
  if (commutes(op) && a > b) std::swap(a, b);
  const NodeId id = insert({.op = op, .children = {a, b, kNone}});
  if (sum.known && (*this)[id].op != Op::number) affine_[static_cast<std::size_t>(id)] = sum;
  return id;
}

NodeId Graph::binary(Op op, NodeId a, NodeId b) {
  const Node x = (*this)[a], y = (*this)[b];
  switch (op) {
    case Op::add:
      if (is_number(b, 0)) return a;
      if (is_number(a, 0)) return b;
      if (y.op == Op::negate) return binary(Op::subtract, a, y.children[0]);
      if (x.op == Op::negate) return binary(Op::subtract, b, x.children[0]);
      return arithmetic(op, a, b);
    case Op::subtract:
      if (is_number(b, 0)) return a;
      if (is_number(a, 0)) return unary(Op::negate, b);
      if (y.op == Op::negate) return binary(Op::add, a, y.children[0]);
      return arithmetic(op, a, b);
    case Op::multiply:
      if (is_number(b, 1)) return a;
      if (is_number(a, 1)) return b;
      if (is_number(b, -1)) return unary(Op::negate, a);
      if (is_number(a, -1)) return unary(Op::negate, b);
      if (x.op == Op::negate && y.op == Op::negate) return binary(op, x.children[0], y.children[0]);
      if (x.op == Op::negate && y.op != Op::number) return unary(Op::negate, binary(op, x.children[0], b));
      if (y.op == Op::negate && x.op != Op::number) return unary(Op::negate, binary(op, a, y.children[0]));
      return arithmetic(op, a, b);
    case Op::divide:
      if (y.op == Op::number && has_reciprocal(y.value)) return binary(Op::multiply, a, number(1 / y.value));
      break;
    case Op::power:
      if (is_number(b, 0)) return number(1);
      if (is_number(b, 1)) return a;
      if (is_number(b, 2)) return binary(Op::multiply, a, a);
      if (is_number(b, 3)) return binary(Op::multiply, binary(Op::multiply, a, a), a);
      if (is_number(b, 4)) return binary(Op::power, binary(Op::multiply, a, a), number(2));
      if (is_number(b, -1)) return binary(Op::divide, number(1), a);
      break;
    case Op::less:
    case Op::less_equal:
    case Op::equal: {
      // i < j + 3 looks at the offset alone.
      const Affine left = affine_of(a), right = affine_of(b);
      if (left.known && right.known && x.op != Op::number && y.op != Op::number) {
        const NodeId difference = arithmetic(Op::subtract, a, b);
        if ((*this)[difference].level == Level::offset) return binary(op, difference, number(0));
      }
      // −x < c is the same as −c < x.
      if (x.op == Op::negate && y.op == Op::number) return binary(op, number(-y.value), x.children[0]);
      if (y.op == Op::negate && x.op == Op::number) return binary(op, y.children[0], number(-x.value));
      break;
    }
    case Op::logical_and:
      if (x.op == Op::number) return x.value != 0 ? b : a;
      if (y.op == Op::number) return y.value != 0 ? a : b;
      if (a == b) return a;
      break;
    case Op::logical_or:
      if (x.op == Op::number) return x.value != 0 ? a : b;
      if (y.op == Op::number) return y.value != 0 ? b : a;
      if (a == b) return a;
      break;
    case Op::live_multiply:
      if (is_number(b, 1)) return a;
      if (is_number(b, -1)) return unary(Op::negate, a);
      return live_product(a, b);
    default: break;
  }
  if (commutes(op) && a > b) std::swap(a, b);
  return insert({.op = op, .children = {a, b, kNone}});
}

// Constants are finite, and the scale is checked to be. Products are not followed far.
bool Graph::is_finite(NodeId id, int depth) const {
  const Node& node = (*this)[id];
  if (node.op == Op::number) return std::abs(node.value) < 1e30;
  return node.op == Op::scale || (node.op == Op::multiply && depth > 0 && is_finite(node.children[0], depth - 1) &&
                                  is_finite(node.children[1], depth - 1));
}

// x and u where id is x·u of a pair with a number that all pairs share; else none.
std::optional<std::array<NodeId, 2>> Graph::uniform_factor(NodeId id) const {
  const Node& node = (*this)[id];
  if (node.level != Level::pair || (node.op != Op::multiply && node.op != Op::live_multiply)) return std::nullopt;
  if ((*this)[node.children[1]].level == Level::uniform) return std::array{node.children[0], node.children[1]};
  if (node.op == Op::multiply && (*this)[node.children[0]].level == Level::uniform)
    return std::array{node.children[1], node.children[0]};
  return std::nullopt;
}

// Numbers that all pairs share stay outermost and become one.
NodeId Graph::live_product(NodeId a, NodeId b) {
  if (const auto inside = uniform_factor(a)) {
    const auto [x, u] = *inside;
    if ((*this)[b].level == Level::uniform) return live_product(x, binary(Op::multiply, u, b));
    return live_product(live_product(x, b), u);
  }
  if (is_finite(b, 3)) return binary(Op::multiply, a, b);
  return insert({.op = Op::live_multiply, .children = {a, b, kNone}});
}

NodeId Graph::where(NodeId condition, NodeId a, NodeId b) {
  if ((*this)[condition].op == Op::number) return (*this)[condition].value != 0 ? a : b;
  if (a == b) return a;
  if ((*this)[condition].op == Op::logical_not) return where((*this)[condition].children[0], b, a);
  return insert({.op = Op::where, .condition = (*this)[a].condition, .children = {condition, a, b}});
}

NodeId Graph::reduce(NodeId a, Level level) {
  const Node from = (*this)[a];
  if (from.level == level) return a;
  if (from.op == Op::negate) return unary(Op::negate, reduce(from.children[0], level));
  // A factor that is there after the sum too is multiplied in once.
  if (from.op == Op::live_multiply || from.op == Op::multiply) {
    for (const std::size_t n : {std::size_t{1}, std::size_t{0}}) {
      const Level of = (*this)[from.children[n]].level;
      if (of != Level::uniform && of != level) continue;
      if (n == 0 && from.op == Op::live_multiply) continue;
      const NodeId sum = reduce(from.children[1 - n], level);
      return binary(Op::live_multiply, sum, from.children[n]);
    }
  }
  return insert({.op = Op::reduce, .index = static_cast<std::int16_t>(level), .children = {a, kNone, kNone}});
}

NodeId Graph::fused(Op op, NodeId a, NodeId b, NodeId c) { return insert({.op = op, .children = {a, b, c}}); }

NodeId Graph::rebuild(const Node& node, const std::array<NodeId, 3>& children) {
  if (node.op == Op::number) return node.condition ? condition(node.value != 0) : number(node.value);
  if (node.op == Op::table) return table(node.index, children[0], children[1]);
  if (is_leaf(node.op)) return leaf(node.op, node.index);
  if (node.op == Op::where) return where(children[0], children[1], children[2]);
  if (node.op == Op::reduce) return reduce(children[0], static_cast<Level>(node.index));
  if (children[2] != kNone) return fused(node.op, children[0], children[1], children[2]);
  return children[1] != kNone ? binary(node.op, children[0], children[1]) : unary(node.op, children[0]);
}

bool Graph::same(const Graph& x, NodeId a, const Graph& y, NodeId b) {
  if (a == kNone || b == kNone) return a == b;
  const Node &p = x[a], &q = y[b];
  if (p.op != q.op || p.index != q.index || p.value != q.value) return false;
  const auto in_order = [&](std::size_t u, std::size_t v) {
    return same(x, p.children[0], y, q.children[u]) && same(x, p.children[1], y, q.children[v]);
  };
  const bool both = in_order(0, 1) || (commutes(p.op) && in_order(1, 0));
  return both && same(x, p.children[2], y, q.children[2]);
}

std::vector<bool> Graph::reachable(std::span<const NodeId> roots) const {
  std::vector<bool> needed(nodes_.size());
  for (const NodeId root : roots)
    if (root != kNone) needed[static_cast<std::size_t>(root)] = true;
  for (std::size_t id = nodes_.size(); id-- > 0;)
    if (needed[id])
      for (const NodeId child : nodes_[id].children)
        if (child != kNone) needed[static_cast<std::size_t>(child)] = true;
  return needed;
}

}  // namespace rapt::inline v1::formulas
