#include "tensor/pooling.h"

#include <algorithm>
#include <array>

#include "rapt/error.h"
#include "tensor/simd/table.h"

namespace rapt::inline v1 {

template <class T>
Tensor<T> mean_pool(Tape<T>& tape, const Tensor<T>& x, int dim) {
  if (x.rank != 3 || (dim != 0 && dim != 1) || !x.is_contiguous())
    throw Error("mean_pool: expected a contiguous tensor of three dimensions and dimension 0 or 1, got " +
                to_string(x) + " and dimension " + std::to_string(dim));
  const std::int64_t width = x.size(2), kept = x.size(1 - dim), pooled = x.size(dim);
  const T share = T(1) / static_cast<T>(pooled);
  const Tensor<T> y = tape.make({kept, width});
  std::fill_n(y.data, y.count(), T(0));
  const std::array<std::int64_t, 2> strides{x.strides[static_cast<std::size_t>(1 - dim)],
                                            x.strides[static_cast<std::size_t>(dim)]};
  for (std::int64_t n = 0; n < kept; ++n)
    for (std::int64_t p = 0; p < pooled; ++p)
      tensor_kernels<T>().add_scaled(share, x.data + n * strides[0] + p * strides[1], y.data + n * width, width);
  tape.record([=] {
    if (!x.grad) return;
    for (std::int64_t n = 0; n < kept; ++n)
      for (std::int64_t p = 0; p < pooled; ++p)
        tensor_kernels<T>().add_scaled(share, y.grad + n * width, x.grad + n * strides[0] + p * strides[1], width);
  });
  return y;
}

template Tensor<float> mean_pool(Tape<float>&, const Tensor<float>&, int);
template Tensor<double> mean_pool(Tape<double>&, const Tensor<double>&, int);

}  // namespace rapt::inline v1
