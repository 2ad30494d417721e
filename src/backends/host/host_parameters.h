#pragma once

#include "attend/problem.h"

namespace rapt::inline v1 {

// Fills ParameterValue::data for parameters in the memory of this processor: where they lie, or a copy in the compute type.
void read_host_parameters(Problem& problem);

// This head's number of a normaliser's parameter, or its default.
double normalizer_value(const Problem& problem, std::size_t n, std::int64_t h);

}  // namespace rapt::inline v1
