#pragma once

#include <cstdint>

#include "attend/problem.h"

// Numbers of any storage type, read and written in the compute type T (float or double).
namespace rapt::inline v1 {

// dst[dim] = row `row` of src.
template <class T>
void load_row(const MatrixRef& src, std::int64_t row, std::int64_t dim, T* dst);

// Row `row` of dst = src[dim], rounded to nearest.
template <class T>
void store_row(const T* src, std::int64_t dim, const MatrixRef& dst, std::int64_t row);

// The matrix of batch b and head h of a view; its rows are the third dimension. A stride of 0 stays 0.
MatrixRef matrix_of(const View& view, std::int64_t b, std::int64_t h);
MatrixRef matrix_of(const ConstView& view, std::int64_t b, std::int64_t h);

// dst = src, which is contiguous and has dst's shape. Strides of dst may be anything.
template <class T>
void store_array(const T* src, const View& dst);

void store_zeros(const View& dst);
// Clears every requested gradient.
void store_zeros(const Gradients& gradients);

}  // namespace rapt::inline v1
