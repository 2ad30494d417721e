// The benchmark's check of its own results: right ones pass, whatever their shape.

#include <gtest/gtest.h>

#include <random>

#include "benchmarks/check.h"
#include "rapt/registry.h"

namespace rapt::bench {
namespace {

TEST(BenchCheckSlow, FiveHundredShapesPass) {
  std::mt19937 random(16);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(bound));
  };
  const auto mechanisms = all_mechanisms();
  for (int n = 0; n < 500; ++n) {
    Spec spec;
    spec.name = spec.mechanism = mechanisms[static_cast<std::size_t>(below(std::ssize(mechanisms)))]->name();
    // Small ones above all: one key, one dimension.
    const auto size = [&](std::int64_t most) { return 1 + (below(3) == 0 ? below(4) : below(most)); };
    spec.sizes = {1 + below(2), 1 + below(2), size(90), size(70)};
    spec.dtype = below(4) == 0 ? Dtype::bf16 : Dtype::f32;
    if (below(3) == 0) spec.causal = Causal::top_left;
    const Direction direction = below(3) == 0 ? Direction::forward : Direction::backward;
    try {
      check_small(spec, direction, 2);
    } catch (const WrongResult& wrong) {
      ADD_FAILURE() << wrong.message << " at " << spec.sizes.batch << "," << spec.sizes.heads << "," << spec.sizes.keys
                    << "," << spec.sizes.dim << (spec.causal == Causal::none ? "" : " causal");
    }
  }
}

}  // namespace
}  // namespace rapt::bench
