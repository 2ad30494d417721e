#include "benchmarks/random_shapes.h"

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "tensor/random.h"

namespace rapt::bench {
namespace {

// Integers only: a logarithm may round differently on another machine.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::int64_t within(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(high - low + 1)));
  }

  // Every octave above `low` is equally likely, and so is every integer within it.
  std::int64_t doubling(std::int64_t low, std::int64_t high) {
    const auto bands = std::bit_width(static_cast<std::uint64_t>(high / low));
    const std::int64_t first = low << within(0, bands - 1);
    return within(first, std::min(high, 2 * first - 1));
  }

  std::int64_t one_of(std::initializer_list<std::int64_t> list) { return list.begin()[random_.below(list.size())]; }

 private:
  Random random_;
};

struct DrawnKind {
  ShapeKind about;
  void (*draw)(Draw& draw, Spec& spec);
};

// A call of several seconds says little more than a shorter one of its kind.
constexpr double kMostFlops = 3e10;

const std::vector<DrawnKind>& kinds() {
  static const std::vector<DrawnKind> list{
      {{"short", "B 32–512, H 1–8, S 8–64, D 8–64: many batches of short sequences, small heads"},
       [](Draw& d, Spec& s) {
         s.sizes = {d.doubling(32, 512), d.within(1, 8), d.within(8, 64), 8 * d.within(1, 8)};
       }},
      {{"vit", "B 1–8, H 3–12, S 144–260, D 32–80: about 200 tokens and a few heads, a vision Transformer"},
       [](Draw& d, Spec& s) {
         s.sizes = {d.within(1, 8), d.within(3, 12), d.within(144, 260), d.one_of({32, 48, 64, 64, 80})};
       }},
      {{"cross", "B 1–4, H 1–16, 8–99 queries, 1000–8000 keys, D 24–120, no multiple of 32: cross-attention"},
       [](Draw& d, Spec& s) {
         s.sizes = {d.within(1, 4), d.within(1, 16), d.doubling(1000, 8000),
                    d.one_of({24, 36, 40, 48, 56, 72, 80, 88, 100, 104, 112, 120})};
         s.queries = d.within(8, 99);
       }},
      {{"grouped",
        "B 1–4, 1–8 heads of keys with 2–8 of queries each, 1 query, 2000–32000 keys, D 64–128: a long cache"},
       [](Draw& d, Spec& s) {
         s.key_heads = d.one_of({1, 2, 4, 8});
         s.sizes = {d.within(1, 4), s.key_heads * d.within(2, 8), d.doubling(2000, 32000), d.one_of({64, 80, 96, 128})};
         s.queries = 1;
       }},
      {{"bert", "B 8–32, H 8–16, S 128–512, D 64–96: a few hundred tokens, many batches and heads"},
       [](Draw& d, Spec& s) {
         s.sizes = {d.within(8, 32), d.within(8, 16), d.within(128, 512), d.one_of({64, 64, 64, 80, 96})};
       }},
      {{"one_head", "B 1, H 1, S 1500–5000, D 256: one head, thousands of tokens"},
       [](Draw& d, Spec& s) {
         s.sizes = {1, 1, d.within(1500, 5000), 256};
       }},
      {{"long", "B 1–2, H 2–16, S 700–4500, D 32–128: long self-attention"},
       [](Draw& d, Spec& s) {
         s.sizes = {d.within(1, 2), d.within(2, 16), d.doubling(700, 4500), d.one_of({32, 64, 64, 80, 96, 128})};
       }},
      {{"causal", "the same ranges as long, causal"},
       [](Draw& d, Spec& s) {
         s.sizes = {d.within(1, 2), d.within(2, 16), d.doubling(700, 4500), d.one_of({32, 64, 64, 80, 96, 128})};
         s.causal = Causal::top_left;
       }},
  };
  return list;
}

}  // namespace

const std::vector<ShapeKind>& shape_kinds() {
  static const std::vector<ShapeKind> list = [] {
    std::vector<ShapeKind> names;
    for (const DrawnKind& kind : kinds()) names.push_back(kind.about);
    return names;
  }();
  return list;
}

std::vector<Spec> random_specs(std::int64_t count, std::uint64_t seed) {
  Draw draw(seed);
  std::vector<Spec> specs;
  for (std::int64_t n = 0; n < count; ++n) {
    const DrawnKind& kind = kinds()[static_cast<std::size_t>(n) % kinds().size()];
    Spec spec;
    do {
      spec = {};
      spec.name = kind.about.name;
      kind.draw(draw, spec);
    } while (4 * spec.visible_pairs() * static_cast<double>(spec.sizes.dim) > kMostFlops);
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace rapt::bench
