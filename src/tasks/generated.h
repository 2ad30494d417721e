#pragma once

#include <cstdint>
#include <vector>

#include "tasks/pairs.h"
#include "tensor/random.h"

namespace rapt::inline v1::tasks {

// How many examples of a generated task, and how long. Errors call it `task`.
struct Amount {
  const char* task;
  std::int64_t train;
  std::int64_t valid;
  std::int64_t test;
  std::int64_t min_length;
  std::int64_t max_length;

  std::int64_t total() const { return train + valid + test; }
};

// Throws for negative or excessive counts and for lengths that are not 1 ≤ min ≤ max ≤ 10,000.
void check(const Amount& amount);

// Shuffles before splitting: short texts run out while they are generated, and no part should lack them.
TaskData cut(std::vector<Example> examples, const Amount& amount, Random& random);

}  // namespace rapt::inline v1::tasks
