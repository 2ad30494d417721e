#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reproduce/section.h"
#include "solve/expect.h"

namespace rapt::reproduce {

// A worked example of examples/, solved by the code behind `rapt solve`.
struct Worked {
  std::string file;  // as a command names it: "examples/001_1_1_one_query.json"
  solve::WorkedProblem problem;
  solve::Solution solution;
  std::vector<solve::Comparison> comparisons;

  // The parts of its title: "Practical 10, question 1.1: one query" is of "Practical 10, question 1.1", about "One query".
  std::string document() const;
  std::string subject() const;
  std::int64_t agreeing() const;
};

// The example of that file name. Throws rapt::Error where there is none.
Worked solve_example(std::string_view name);

// Every expected number beside ours, folded.
Table comparison_table(const Worked& worked);

// All expected numbers agree to their last digit; says who gave them where the document does not print them.
Claim comparison_claim(const Worked& worked);

// The attention map of a head as a picture; `name` is that of its file.
Picture map_picture(const Worked& worked, const solve::AttentionMap& map, std::string name, std::string caption);

}  // namespace rapt::reproduce
