#pragma once

#include "attend/problem.h"

// Scores that are a quadratic form of the grid offset, f(row) + g(col): their softmax factorises over rows and columns.
namespace rapt::inline v1 {

// Whether the form alone decides the weights: softmax over a whole grid, no mask, no bias.
bool may_factorize(const Problem& problem);

// Whether the form has no term of row·col, whatever the parameters are.
bool has_separate_axes(const MechanismInfo& mechanism, const void* object);

}  // namespace rapt::inline v1
