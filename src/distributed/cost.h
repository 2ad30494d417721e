#pragma once

#include <string>

#include "distributed/call.h"

namespace rapt::inline v1::distributed {

// What one process is expected to spend, in seconds.
struct Cost {
  double compute = 0;
  double transfer = 0;
  double bytes = 0;  // that a process sends
  double total = 0;
};

// compute: multiply-adds a second of one process, bandwidth: bytes a second.
Cost ring_cost(const Call& call, bool backward, double compute, double bandwidth);
Cost heads_cost(const Call& call, bool backward, double compute, double bandwidth);

// Chooses in process 0 and tells the others; throws in all where no way is left.
Distribution choose(const Call& call, const Given& given, const DistributedOptions& how);
// Where only the ring in steps is left: throws in all where it is not.
void choose_steps(const Call& call, const DistributedOptions& how);

}  // namespace rapt::inline v1::distributed
