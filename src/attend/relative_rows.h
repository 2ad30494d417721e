#pragma once

#include "attend/problem.h"

namespace rapt::inline v1 {

// Asks the mechanism's index() once for every offset that a query and a key of the problem may have. Throws if the
// table does not reach that far. Parameters that are not tables stay as they are.
void find_relative_rows(const char* operation, const Problem& problem, ParameterValue& value);

}  // namespace rapt::inline v1
