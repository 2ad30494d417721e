#pragma once

#include "benchmarks/workload.h"

// Nothing is timed before its results are known to be right. Each function throws WrongResult where they are not.
namespace rapt::bench {

struct WrongResult {
  std::string message;
};

// A small problem of the same kind, computed on a device: every result at most twice as far from f64 as the naive path of
// the same dtype, which runs on the cpu.
void check_small(const Spec& spec, Direction direction, int threads, const Device& device = {});

// The problem itself, after its call: a few rows of every kind against a plain evaluation in double.
void check_rows(const Workload& workload, Direction direction);

}  // namespace rapt::bench
