#pragma once

#include "benchmarks/rows.h"

namespace rapt::cli {

// Measures and prints `rapt bench calls`.
void bench_calls(const bench::Plan& plan, bool json);

}  // namespace rapt::cli
