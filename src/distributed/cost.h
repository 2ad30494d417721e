#pragma once

#include <string>

#include "distributed/call.h"

namespace rapt::inline v1::distributed {

// The predicted cost of one process, in seconds.
struct Cost {
  double compute = 0;
  double transfer = 0;
  double bytes = 0;  // that a process sends
  double total = 0;
};

// compute: multiply-adds per second of one process; bandwidth: bytes per second.
Cost ring_cost(const Call& call, bool backward, double compute, double bandwidth);
Cost heads_cost(const Call& call, bool backward, double compute, double bandwidth);

// Process 0 chooses and tells the others; throws in all if no way is left.
Distribution choose(const Call& call, const Given& given, const DistributedOptions& how);
// For calls that only the ring in steps can compute: throws in all if it cannot.
void choose_steps(const Call& call, const DistributedOptions& how);

}  // namespace rapt::inline v1::distributed
