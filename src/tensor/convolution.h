#pragma once

#include "tensor/tape.h"

namespace rapt::inline v1 {

// Stride and padding of a kernel, the same in both directions.
struct ConvolutionSteps {
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // zeros on each side

  // ⌊(size + 2p − K)/s⌋ + 1, or 0 if the kernel does not fit.
  std::int64_t output(std::int64_t size, std::int64_t kernel) const {
    const std::int64_t room = size + 2 * padding - kernel;
    return room < 0 ? 0 : room / stride + 1;
  }
};

// y[n, i, j] = bias + Σ_{a,b} padded[n, s·i + a, s·j + b] · kernel[a, b], without a flip: x [N, R, C, in], kernel [K1,
// K2, in, out], bias [out] or none; y [N, R', C', out]. Patches are gathered, a part of an image at a time, and
// multiplied as a matrix.
template <class T>
Tensor<T> convolution(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& kernel, const Tensor<T>& bias,
                      const ConvolutionSteps& steps);

}  // namespace rapt::inline v1
