#pragma once

#include <vector>

#include "benchmarks/timing.h"
#include "benchmarks/workload.h"

namespace rapt::bench {

struct GrowthPoint {
  std::int64_t length = 0;
  Spread seconds;
};

// Times for S = 256, 512, … up to the length of spec; ends early where the next one would take the total past `budget`
// seconds. Under a mask that leaves a band or a few keys: from 65,536, and the next one alone past four times as many.
// Throws Stopped.
std::vector<GrowthPoint> measure_growth(const Spec& spec, Direction direction, int threads, double budget,
                                        const std::function<bool()>& stop = {});

}  // namespace rapt::bench
