#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "benchmarks/workload.h"

// Shapes drawn from ranges, for the kinds of work that attention meets. What one picks by hand is what one tuned for.
namespace rapt::bench {

struct ShapeKind {
  std::string_view name;
  std::string_view work;  // what it stands for, with its ranges
};

const std::vector<ShapeKind>& shape_kinds();

// `count` problems, the kinds in turn; Spec::name is the kind. The same for a seed on every machine, and the first of a longer
// list are those of a shorter one.
std::vector<Spec> random_specs(std::int64_t count, std::uint64_t seed);

}  // namespace rapt::bench
