#pragma once

#include "attend/problem.h"

namespace rapt::inline v1 {

// Throws if a formula would choose by numbers that the compute type rounds: it would read another number of a table, or
// hide another pair, than its text says.
void require_exact_choices(const char* operation, const Problem& problem);

}  // namespace rapt::inline v1
