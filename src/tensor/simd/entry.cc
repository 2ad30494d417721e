#include "tensor/simd/entry.h"

namespace rapt::inline v1::RAPT_TARGET {

template <class T>
const TensorKernels<T>& tensor_table() {
  static const TensorKernels<T> table = [] {
    TensorKernels<T> k;
    fill_matmul(k);
    fill_pointwise(k);
    fill_cells(k);
    fill_rows(k);
    return k;
  }();
  return table;
}

template const TensorKernels<float>& tensor_table();
template const TensorKernels<double>& tensor_table();

}  // namespace rapt::inline v1::RAPT_TARGET
