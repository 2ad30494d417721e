#pragma once

#include <string>

#include "benchmarks/rows.h"

namespace rapt::cli {

struct BenchRandomArguments {
  std::string count;
  std::string seed;     // empty: 1
  std::string threads;  // a list; empty: 1, 2, 8 and all
  std::string dtypes;   // a list; empty: f32 and bf16
  bool json = false;
  bool dry_run = false;  // the shapes alone
};

// rapt bench --random N: random shapes, for several dtypes and numbers of threads. The plan says how to measure.
void bench_random(const BenchRandomArguments& arguments, const bench::Plan& plan);

}  // namespace rapt::cli
