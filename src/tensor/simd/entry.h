#pragma once

#include "tensor/simd/table.h"

namespace rapt::inline v1::RAPT_TARGET {

template <class T>
void fill_matmul(TensorKernels<T>& kernels);
template <class T>
void fill_pointwise(TensorKernels<T>& kernels);
template <class T>
void fill_cells(TensorKernels<T>& kernels);
template <class T>
void fill_rows(TensorKernels<T>& kernels);

}  // namespace rapt::inline v1::RAPT_TARGET
