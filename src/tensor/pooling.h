#pragma once

#include "tensor/tape.h"

namespace rapt::inline v1 {

// The mean over one dimension of x [A, B, C], which is dropped; dim is 0 or 1.
template <class T>
Tensor<T> mean_pool(Tape<T>& tape, const Tensor<T>& x, int dim);

}  // namespace rapt::inline v1
