#pragma once

#include <string>
#include <vector>

#include "solve/steps.h"

namespace rapt::solve {

// A number that someone printed, beside ours. Row and column count from 1; a row is a query's own number.
struct Comparison {
  std::string id;
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::string printed;
  std::string ours;
  double value = 0;
  bool agrees = false;
};

// Throws rapt::Error where "expect" names no step or has another shape than it.
std::vector<Comparison> compare(const WorkedProblem& problem, const Solution& solution);

bool all_agree(const std::vector<Comparison>& comparisons);

}  // namespace rapt::solve
