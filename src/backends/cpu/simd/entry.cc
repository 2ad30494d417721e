#include "backends/cpu/simd/entry.h"

namespace rapt::inline v1::RAPT_TARGET {

template <class T>
const Kernels<T>& kernels() {
  static const Kernels<T> table = [] {
    Kernels<T> k;
    fill_forward(k);
    fill_short_heads(k);
    fill_short_backward(k);
    fill_backward(k);
    fill_slope_means(k);
    return k;
  }();
  return table;
}

template const Kernels<float>& kernels();
template const Kernels<double>& kernels();

}  // namespace rapt::inline v1::RAPT_TARGET
