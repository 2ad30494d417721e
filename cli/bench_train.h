#pragma once

#include <string>
#include <vector>

#include "benchmarks/timing.h"

namespace rapt::cli {

struct BenchTrainArguments {
  std::vector<std::string> names;
  int threads = 1;
  bench::Effort effort;
  bool quick = false;
  bool json = false;
};

// Measures and prints `rapt bench train`.
void bench_training(const BenchTrainArguments& arguments);

}  // namespace rapt::cli
