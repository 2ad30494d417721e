#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rapt/error.h"
#include "rapt/numbers.h"

// A formula as a graph of operations: constants are folded, equal parts are one node, and every node knows what it
// depends on. Children come before their parents.
namespace rapt::inline v1::formulas {

enum class Part : std::uint8_t { score, pair, visible };

// Where something stands in the texts of a formula.
struct TextPlace {
  Part part = Part::score;
  std::int16_t at = 0;
};

// A formula is too large; the caller that has its texts shows the place where it became so.
struct TooLarge : Error {
  TooLarge(const std::string& what_is_wrong, TextPlace where)
      : Error("formula: " + what_is_wrong), sentence(what_is_wrong), place(where) {}

  std::string sentence;
  TextPlace place;
};

enum class Op : std::uint8_t {
  // What a formula reads.
  number,
  raw,
  scale,
  query,   // i, the query's position
  key,     // j
  offset,  // j − i
  head,
  batch,
  queries,
  keys,
  query_row,  // grid coordinates
  query_col,
  key_row,
  key_col,
  value,     // slot `index`, which is a number
  relative,  // slot `index`, a table read by offset
  table,     // table `index` at (a, b); b none: one dimension; both none: a single number
  pair_q,
  pair_k,
  pair_w,
  grad,  // of the score, in derivatives
  // Operations.
  negate,
  absolute,
  sign,
  floor,
  exp,
  log,
  sqrt,
  tanh,
  sigmoid,
  erf,
  sin,
  cos,
  logical_not,
  add,
  subtract,
  multiply,
  divide,
  minimum,
  maximum,
  power,
  less,
  less_equal,
  equal,
  logical_and,
  logical_or,
  where,
  // Of derivatives and programs.
  live_multiply,  // a·b, and 0 where a is 0, whatever b is
  keep,           // b where a holds, else 0
  multiply_add,   // a·b + c
  multiply_subtract,
  negated_multiply_add,  // c − a·b
  subtract_both,         // a − b − c
  // Of programs alone.
  add_products,       // a·b + c·d
  subtract_products,  // a·b − c·d
  scaled_squares,     // c·(a² + b²)
  reduce,             // the sum over all pairs, of those of each place of `level`
};

RAPT_FN constexpr bool is_leaf(Op op) { return op <= Op::grad; }

// What a number is the same for. A pair depends on all of it.
enum class Level : std::uint8_t { uniform, key, query, offset, pair };

constexpr Level join(Level a, Level b) {
  if (a == b || b == Level::uniform) return a;
  return a == Level::uniform ? b : Level::pair;
}

// Beyond the level, what a node depends on.
enum Dependency : std::uint8_t {
  kOnRaw = 1,
  kOnParameters = 2,
  kOnHead = 4,  // head or batch
  kOnPlaces = 8,
  kOnScale = 16,
};

using NodeId = std::int16_t;
inline constexpr NodeId kNone = -1;
inline constexpr int kMostOperations = 2000;  // of a text
inline constexpr int kMostNodes = 10000;      // of a graph, derivatives included

struct Node {
  Op op = Op::number;
  bool condition = false;
  Level level = Level::uniform;
  std::uint8_t dependencies = 0;
  std::int16_t index = 0;  // slot, table, or the level of a reduction
  std::array<NodeId, 3> children{kNone, kNone, kNone};
  TextPlace place{};  // what it was made from
  double value = 0;   // of a number
};

// x = i·query + j·key + constant, where a node is that.
struct Affine {
  bool known = false;
  double query = 0, key = 0, constant = 0;
};

class Graph {
 public:
  Graph() = default;
  explicit Graph(int most_nodes) : most_nodes_(most_nodes) {}

  const Node& operator[](NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }
  // Where new nodes stand in the texts.
  void set_place(TextPlace place) { place_ = place; }

  NodeId number(double value);
  NodeId condition(bool value);
  NodeId leaf(Op op, int index = 0);
  NodeId table(int index, NodeId row, NodeId col);
  NodeId unary(Op op, NodeId a);
  NodeId binary(Op op, NodeId a, NodeId b);
  NodeId where(NodeId condition, NodeId a, NodeId b);
  NodeId reduce(NodeId a, Level level);
  NodeId fused(Op op, NodeId a, NodeId b, NodeId c);

  bool is_number(NodeId id, double value) const { return (*this)[id].op == Op::number && (*this)[id].value == value; }
  // Whether two roots of two graphs are the same expression.
  static bool same(const Graph& x, NodeId a, const Graph& y, NodeId b);
  // Which nodes the roots need.
  std::vector<bool> reachable(std::span<const NodeId> roots) const;
  // A copy of another graph's expression in this one, leaves replaced by `leaf(id)` where that is not kNone.
  template <class F>
  NodeId import(const Graph& from, NodeId root, F&& leaf);

 private:
  NodeId insert(Node node);
  NodeId rebuild(const Node& node, const std::array<NodeId, 3>& children);
  NodeId arithmetic(Op op, NodeId a, NodeId b);
  NodeId by_offset(const Affine& sum);
  bool is_finite(NodeId id, int depth) const;
  std::optional<std::array<NodeId, 2>> uniform_factor(NodeId id) const;
  NodeId live_product(NodeId a, NodeId b);
  Affine affine_of(NodeId id) const { return affine_[static_cast<std::size_t>(id)]; }

  std::vector<Node> nodes_;
  std::vector<Affine> affine_;
  int most_nodes_ = kMostNodes;
  TextPlace place_{};
  std::vector<std::int16_t> buckets_;  // a hash table of nodes, open addressing
};

// What an operation gives for numbers; conditions are 1 and 0.
double apply(Op op, double a, double b, double c);

template <class F>
NodeId Graph::import(const Graph& from, NodeId root, F&& leaf) {
  const NodeId roots[] = {root};
  const std::vector<bool> needed = from.reachable(roots);
  std::vector<NodeId> to(static_cast<std::size_t>(from.size()), kNone);
  for (NodeId id = 0; id <= root; ++id) {
    if (!needed[static_cast<std::size_t>(id)]) continue;
    const Node& node = from[id];
    std::array<NodeId, 3> children{kNone, kNone, kNone};
    for (std::size_t n = 0; n < 3; ++n)
      if (node.children[n] != kNone) children[n] = to[static_cast<std::size_t>(node.children[n])];
    place_ = node.place;
    const NodeId replaced = leaf(id, children);
    to[static_cast<std::size_t>(id)] = replaced != kNone ? replaced : rebuild(node, children);
  }
  return to[static_cast<std::size_t>(root)];
}

}  // namespace rapt::inline v1::formulas
