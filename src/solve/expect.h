#pragma once

#include <string>
#include <vector>

#include "solve/steps.h"

namespace rapt::solve {

// A printed number beside ours. Rows and columns count from 1; a row is the query's number.
struct Comparison {
  std::string id;
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::string printed;
  std::string ours;
  double value = 0;
  bool agrees = false;
};

// Throws rapt::Error if "expect" names no step, or has another shape.
std::vector<Comparison> compare(const WorkedProblem& problem, const Solution& solution);

bool all_agree(const std::vector<Comparison>& comparisons);

}  // namespace rapt::solve
