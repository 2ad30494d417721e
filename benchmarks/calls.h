#pragma once

#include "benchmarks/timing.h"
#include "rapt/dtype.h"

namespace rapt::bench {

// A short call of scaled_dot on one thread.
struct CallSizes {
  std::int64_t batch = 1, heads = 1, queries = 1, keys = 1, dim = 1;
};

// Seconds of one call: by a hand-written naive loop, by attend(), and by a prepared plan.
struct CallTimes {
  Spread loop, attend, plan;
};

// Throws WrongResult if their results differ.
CallTimes measure_calls(const CallSizes& sizes, const Effort& effort);

}  // namespace rapt::bench
