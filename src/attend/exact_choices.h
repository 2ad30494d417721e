#pragma once

#include "attend/problem.h"

namespace rapt::inline v1 {

// Throws where a formula would choose by numbers that the compute type rounds: read another number of a table, or hide
// another pair, than what its text says.
void require_exact_choices(const char* operation, const Problem& problem);

}  // namespace rapt::inline v1
