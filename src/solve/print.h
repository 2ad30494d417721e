#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "solve/expect.h"
#include "solve/steps.h"

namespace rapt::solve {

struct PrintOptions {
  int precision = 8;
  bool vectors = false;  // e_ij, a_ij, z_i one by one
};

// A whole worked example. Every form ends with the comparison, if the file has "expect".
std::string print_text(const WorkedProblem& problem, const Solution& solution,
                       const std::vector<Comparison>& comparisons, const PrintOptions& options);
std::string print_markdown(const WorkedProblem& problem, const Solution& solution,
                           const std::vector<Comparison>& comparisons, const PrintOptions& options);
nlohmann::ordered_json to_json(const WorkedProblem& problem, const Solution& solution,
                               const std::vector<Comparison>& comparisons, const PrintOptions& options);

// left = parts[0] = parts[1] …
struct VectorLine {
  std::string section;
  Notation left;
  std::vector<Notation> parts;
};

// The per-vector form of an attention problem; throws rapt::Error for other kinds.
std::vector<VectorLine> vector_lines(const WorkedProblem& problem, const Solution& solution, int precision);

}  // namespace rapt::solve
