#pragma once

#include "backends/cpu/simd/kernels.h"

namespace rapt::inline v1::RAPT_TARGET {

template <class T>
void fill_forward(Kernels<T>& kernels);
template <class T>
void fill_short_heads(Kernels<T>& kernels);
template <class T>
void fill_short_backward(Kernels<T>& kernels);
template <class T>
void fill_backward(Kernels<T>& kernels);
template <class T>
void fill_slope_means(Kernels<T>& kernels);

}  // namespace rapt::inline v1::RAPT_TARGET
