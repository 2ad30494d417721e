#pragma once

#include <cstdint>
#include <vector>

#include "benchmarks/training.h"
#include "rapt/communicator.h"
#include "rapt/view.h"

namespace rapt::cli {

// `mpirun -n N rapt bench processes` (or memory): one call or training step over all processes, alternating with the
// engine of process 0 on as many threads as all have together. Medians of `repeat` runs.
struct ProcessesBench {
  std::vector<Shape> shapes;
  std::vector<bench::TrainingCase> models;  // steps of these, in place of calls
  int threads = 1;
  int repeat = 5;
  bool only_memory = false;  // one call, no engine beside it
  bool json = false;
};
void bench_processes(Communicator& world, const ProcessesBench& what);

}  // namespace rapt::cli
