#pragma once

#include "benchmarks/rows.h"
#include "rapt/view.h"

namespace rapt::cli {

// rapt bench --device cuda: attention in device memory. `repeat`: the exact number of consecutive calls.
void bench_device(const bench::Plan& plan, Device::Kind kind, std::optional<int> repeat, bool json);

}  // namespace rapt::cli
