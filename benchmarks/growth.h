#pragma once

#include <vector>

#include "benchmarks/timing.h"
#include "benchmarks/workload.h"

namespace rapt::bench {

struct GrowthPoint {
  std::int64_t length = 0;
  Spread seconds;
};

// Times for S = 256, 512, … up to the length of spec; ends early if the next one would exceed `budget` seconds in
// total. Under a band mask: from 65,536, if the next one alone would exceed four times that. Throws Stopped.
std::vector<GrowthPoint> measure_growth(const Spec& spec, Direction direction, int threads, double budget,
                                        const std::function<bool()>& stop = {});

}  // namespace rapt::bench
