#pragma once

#include <string>

namespace rapt::cli {

struct BenchMultitaskArguments {
  std::string seeds;      // how many; empty: 3
  std::string seed;       // the first; empty: 1
  std::string epochs;     // empty: the task's own
  std::string reference;  // a list; empty: skip
  std::string config;     // a file of settings
  std::string out;        // keeps the runs
  int threads = 1;
  bool quick = false;
  bool json = false;
};

// Trains and prints `rapt bench multitask`.
void bench_multitask(const BenchMultitaskArguments& arguments);

}  // namespace rapt::cli
