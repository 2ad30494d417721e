#pragma once

#include "pictures/heatmap.h"
#include "solve/steps.h"

namespace rapt::solve {

// A head's attention map, with the example's labels.
pictures::HeatMap picture_of(const WorkedProblem& problem, const AttentionMap& map);

}  // namespace rapt::solve
