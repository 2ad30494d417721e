#pragma once

#include "attend/problem.h"

namespace rapt::inline v1 {

// Asks the mechanism's index() once for every offset that a query and a key of the problem may have. Throws where the table
// does not reach so far. Parameters that are no tables are left as they are.
void find_relative_rows(const char* operation, const Problem& problem, ParameterValue& value);

}  // namespace rapt::inline v1
