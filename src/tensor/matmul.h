#pragma once

#include <optional>

#include "tensor/simd/table.h"
#include "tensor/tensor.h"

namespace rapt::inline v1 {

// A factor of a product: any strides.
template <class T>
struct Factor {
  const T* data = nullptr;
  std::int64_t rows = 0, cols = 0;
  std::ptrdiff_t row_stride = 0, col_stride = 1;

  Factor transposed() const { return {data, cols, rows, col_stride, row_stride}; }
};

template <class T>
Factor<T> factor(const Matrix<T>& m) {
  return {m.data, m.rows, m.cols, m.stride, 1};
}
// The gradient of a matrix as a factor.
template <class T>
Factor<T> grad_factor(const Matrix<T>& m) {
  return {m.grad, m.rows, m.cols, m.stride, 1};
}

// Where a product goes: rows that are `stride` apart.
template <class T>
struct Product {
  T* data = nullptr;
  std::int64_t stride = 0;
  bool accumulate = false;
  // Instead of `accumulate`: added to every row, and what the sums go through.
  const T* bias = nullptr;
  std::optional<Activation> activation = {};
};

// C (+)= A·B (+ bias) on the calling thread.
template <class T>
void multiply(const Factor<T>& a, const Factor<T>& b, const Product<T>& c);
template <class T>
void multiply(const Factor<T>& a, const Factor<T>& b, T* c, std::int64_t c_stride, bool accumulate) {
  multiply(a, b, {c, c_stride, accumulate});
}

// A right factor of many products, packed once.
template <class T>
class Packed {
 public:
  // `memory` holds size(b) numbers and outlives this.
  Packed(const Factor<T>& b, T* memory);
  static std::int64_t size(const Factor<T>& b);

  void multiply(const Factor<T>& a, const Product<T>& c) const;
  void multiply(const Factor<T>& a, T* c, std::int64_t c_stride, bool accumulate) const {
    multiply(a, {c, c_stride, accumulate});
  }

 private:
  std::int64_t rows_, cols_;
  T* memory_;
};

}  // namespace rapt::inline v1
