#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "rapt/view.h"

namespace rapt::inline v1 {

// Values and their gradient: up to four dimensions over memory that a Tape owns. Views share both. A null gradient
// means that none is wanted.
template <class T>
struct Tensor {
  T* data = nullptr;
  T* grad = nullptr;
  int rank = 0;
  std::array<std::int64_t, 4> shape{};
  std::array<std::int64_t, 4> strides{};

  explicit operator bool() const { return data != nullptr; }

  // Sizes by dimension; negative ones count from the end.
  std::int64_t size(int dim) const { return shape[static_cast<std::size_t>(dim < 0 ? rank + dim : dim)]; }
  std::int64_t count() const;
  bool is_contiguous() const;

  // The same elements in another shape; they must be contiguous.
  Tensor reshape(std::initializer_list<std::int64_t> sizes) const;
  // Indices [begin, end) of one dimension.
  Tensor slice(int dim, std::int64_t begin, std::int64_t end) const;
  // One index of the first dimension, which is dropped.
  Tensor at(std::int64_t place) const;

  // [steps, batch, heads·dim] seen as [batch, heads, steps, dim].
  Tensor split_heads(std::int64_t heads) const;

  ConstView view() const { return {data, dtype_of<T>(), aligned(shape, 1), aligned(strides, 0)}; }

 private:
  // Four dimensions, aligned to the right.
  Shape aligned(const std::array<std::int64_t, 4>& sizes, std::int64_t fill) const;
};

// A tensor as a matrix, its leading dimensions collapsed into one.
template <class T>
struct Matrix {
  T* data = nullptr;
  T* grad = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  T* row(std::int64_t r) const { return data + r * stride; }
  T* grad_row(std::int64_t r) const { return grad + r * stride; }
};

// Throws if the rows are not equally spaced.
template <class T>
Matrix<T> as_matrix(const Tensor<T>& tensor);

template <class T>
std::string to_string(const Tensor<T>& tensor);

}  // namespace rapt::inline v1
