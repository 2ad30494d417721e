#pragma once

#include <vector>

#include "benchmarks/timing.h"
#include "benchmarks/workload.h"

// The rows of `rapt bench shared`: the cost of one more task under a shared map.
namespace rapt::bench {

struct SharedRow {
  Spec spec;  // with its number of value sets
  Direction direction = Direction::forward;
  Spread seconds;
  double ratio = 1;     // to one value set, measured in turn
  double separate = 1;  // the same number of calls with one value set each: what sharing saves

  // What one more task may cost: 0.6 of the first.
  double limit() const { return 1 + 0.6 * (spec.value_sets - 1); }
};

// One row per number of tasks, the first of which is 1. Throws WrongResult if results are wrong.
std::vector<SharedRow> measure_shared(const Spec& spec, const std::vector<int>& tasks, Direction direction, int threads,
                                      const Effort& effort);

}  // namespace rapt::bench
