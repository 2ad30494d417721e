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

// Strings over {a, b, c, d}, all different, and the same backwards. A length is as likely as another as long as it has
// strings left. Throws where there are fewer strings than asked for.
TaskData reverse_data(const ReverseOptions& options);

}  // namespace rapt::inline v1::tasks
