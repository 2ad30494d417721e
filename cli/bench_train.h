#pragma once

#include <string>
#include <vector>

#include "benchmarks/timing.h"
#include "benchmarks/training.h"

namespace rapt::cli {

struct BenchTrainArguments {
  std::vector<std::string> names;
  std::vector<bench::Job> jobs;
  int threads = 1;
  bench::Effort effort;
  bool quick = false;
  bool json = false;
};

// Measures and prints `rapt bench train`.
void bench_training(const BenchTrainArguments& arguments);

}  // namespace rapt::cli
