#pragma once

#include <cstdint>

#include "tasks/pairs.h"

namespace rapt::inline v1::tasks {

struct ReverseOptions {
  std::uint64_t seed = 1;
  std::int64_t train = 5000;
  std::int64_t valid = 500;
  std::int64_t test = 1000;
  int min_length = 3;
  int max_length = 18;
};

// Distinct strings over {a, b, c, d}, and their reversals. All lengths that have strings left are equally likely.
// Throws if there are fewer strings than asked for.
TaskData reverse_data(const ReverseOptions& options);

}  // namespace rapt::inline v1::tasks
