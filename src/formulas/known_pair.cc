#include "formulas/known_pair.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "formulas/parser.h"
#include "rapt/mechanisms.h"

namespace rapt::inline v1::formulas {
namespace {

struct Product {
  double number = 1;
  std::vector<NodeId> factors;  // none of them a number, a product or a negation
};

constexpr std::size_t kMostFactors = 4;

// None: it has more factors than any pair that is known.
std::optional<Product> product_of(const Graph& graph, NodeId root) {
  Product product;
  std::vector<NodeId> waiting{root};
  while (!waiting.empty()) {
    const Node& node = graph[waiting.back()];
    const NodeId id = waiting.back();
    waiting.pop_back();
    if (node.op == Op::multiply) waiting.insert(waiting.end(), {node.children[0], node.children[1]});
    else if (node.op == Op::negate) product.number = -product.number, waiting.push_back(node.children[0]);
    else if (node.op == Op::number) product.number *= node.value;
    else product.factors.push_back(id);
    if (product.factors.size() + waiting.size() > 2 * kMostFactors || product.factors.size() > kMostFactors)
      return std::nullopt;
  }
  return product;
}

// 1 or −1: the one is the other, times that; 0: it is not.
int sign_between(const Graph& x, NodeId a, const Graph& y, NodeId b) {
  if (Graph::same(x, a, y, b)) return 1;
  const Node &p = x[a], &q = y[b];
  const bool opposite = p.op == Op::subtract && q.op == Op::subtract &&
                        Graph::same(x, p.children[0], y, q.children[1]) &&
                        Graph::same(x, p.children[1], y, q.children[0]);
  return opposite ? -1 : 0;
}

// x ÷ y, where their factors are the same but for signs.
std::optional<double> ratio(const Graph& gx, const Product& x, const Graph& gy, const Product& y) {
  double number = x.number / y.number;
  std::vector<NodeId> left = y.factors;
  if (left.size() != x.factors.size()) return std::nullopt;
  for (const NodeId factor : x.factors) {
    int sign = 0;
    const auto found = std::ranges::find_if(left, [&](NodeId other) {
      sign = sign_between(gx, factor, gy, other);
      return sign != 0;
    });
    if (found == left.end()) return std::nullopt;
    left.erase(found);
    number *= sign;
  }
  return number;
}

}  // namespace

std::optional<KnownPair> known_pair(const Graph& graph, NodeId root) {
  struct Mechanism {
    const char* text;
    const MechanismInfo& (*info)();
  };
  static constexpr std::array kMechanisms{Mechanism{"w*tanh(q+k)", &builtin::additive},
                                          Mechanism{"(q-k)^2", &builtin::distance}};
  // The factor goes to the score, where it must neither overflow nor vanish.
  constexpr double kMostFactor = 1 << 20;
  const std::optional<Product> given = product_of(graph, root);
  if (!given) return std::nullopt;
  for (const Mechanism& mechanism : kMechanisms) {
    Graph own;
    std::vector<NamedParameter> none;
    const NodeId own_root = parse(Part::pair, mechanism.text, own, none);
    const std::optional<double> factor = ratio(graph, *given, own, *product_of(own, own_root));
    if (!factor) continue;
    const double size = std::abs(*factor);
    if (size <= kMostFactor && size >= 1 / kMostFactor) return KnownPair{&mechanism.info(), mechanism.text, *factor};
  }
  return std::nullopt;
}

}  // namespace rapt::inline v1::formulas
