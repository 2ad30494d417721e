#pragma once

#include <vector>

#include "benchmarks/rows.h"

namespace rapt::cli {

// Measures and prints `rapt bench shared`.
void bench_shared(const bench::Plan& plan, bool json);

}  // namespace rapt::cli
