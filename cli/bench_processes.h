#pragma once

#include <cstdint>
#include <vector>

#include "rapt/communicator.h"
#include "rapt/view.h"

namespace rapt::cli {

// `mpirun -n N rapt bench processes` (or memory): one call over all processes, beside the engine of process 0 on as many
// threads as all have together, and the memory of a process.
void bench_processes(Communicator& world, const std::vector<Shape>& shapes, int threads, bool json);

}  // namespace rapt::cli
