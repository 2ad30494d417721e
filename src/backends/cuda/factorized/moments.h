#pragma once

#include <vector>

#include "backends/cuda/factorized/axes.h"

namespace rapt::inline v1::cuda::factorized {

struct ValueSet {
  Array v, grad_out;  // of the same type
};
// The gradients of the numbers of the form: [heads][slots], of each head apart. Sets *axes.redo where one is not finite.
float* form_gradients(const Call& call, const Axes& axes, const std::vector<ValueSet>& sets, int slots,
                      Workspace& workspace);

}  // namespace rapt::inline v1::cuda::factorized
