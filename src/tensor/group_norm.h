#pragma once

#include "tensor/tape.h"

namespace rapt::inline v1 {

// Group norm: y = (x − mean)/deviation · gain + bias, with mean and deviation of one group of adjacent channels over
// all pixels of one image. x [N, .., channels], gain and bias [channels].
template <class T>
Tensor<T> group_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gain, const Tensor<T>& bias,
                     std::int64_t groups, T epsilon = T(1e-5));

}  // namespace rapt::inline v1
