#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "benchmarks/workload.h"

// Shapes drawn from ranges, for typical kinds of work: hand-picked shapes are those that were tuned for.
namespace rapt::bench {

struct ShapeKind {
  std::string_view name;
  std::string_view work;  // what it represents, with its ranges
};

const std::vector<ShapeKind>& shape_kinds();

// `count` problems, the kinds in turn; Spec::name is the kind. The same for a seed on every machine, and a shorter list
// is the beginning of a longer one.
std::vector<Spec> random_specs(std::int64_t count, std::uint64_t seed);

}  // namespace rapt::bench
