#pragma once

#include <optional>
#include <vector>

#include "solve/problem.h"

namespace rapt::solve {

// One head's queries, keys and values, projected.
struct HeadInputs {
  Matrix q, k;
  std::vector<Matrix> v;  // empty: only the weights are wanted
};

struct HeadResult {
  Matrix scores;  // of the mechanism alone
  Matrix logits;  // after softcap, bias and mask; −∞ where hidden
  Matrix weights;
  std::vector<Matrix> out;
  bool changed = false;  // whether the logits differ from the scores
};

// All through rapt::attend in f64, except softmax over columns, which the engine does not have; it is computed here.
HeadResult attend_head(const WorkedProblem& problem, const ProblemHead& head, const HeadInputs& inputs,
                       std::optional<double> scale);

}  // namespace rapt::solve
