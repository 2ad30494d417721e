#pragma once

#include "attend/backend.h"

namespace rapt::inline v1::cuda {

void backward(Problem& problem, const BackwardRequest& request);

}  // namespace rapt::inline v1::cuda
