#pragma once

#include "benchmarks/workload.h"

// Results are checked before anything is timed. Each function throws WrongResult if they are wrong.
namespace rapt::bench {

struct WrongResult {
  std::string message;
};

// A small problem of the same kind, computed on a device: every result must be at most twice as far from f64 as the
// naive path of the same dtype on the CPU.
void check_small(const Spec& spec, Direction direction, int threads, const Device& device = {});

// The problem itself, after its call: a few rows of every result against a plain evaluation in double.
void check_rows(const Workload& workload, Direction direction);

}  // namespace rapt::bench
