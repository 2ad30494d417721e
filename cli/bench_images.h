#pragma once

#include <string>
#include <vector>

namespace rapt::cli {

struct BenchImagesArguments {
  std::vector<std::string> tasks;  // none: all
  std::string seeds;               // how many; empty: 1
  std::string seed;                // the first; empty: 1
  std::string epochs;              // empty: the comparison's own
  std::string out;                 // keeps the runs
  int threads = 1;
  bool quick = false;
  bool json = false;
};

// Trains and prints `rapt bench images`.
void bench_images(const BenchImagesArguments& arguments);

}  // namespace rapt::cli
