#include "tensor/matmul.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string>

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1 {
namespace {

// One buffer per thread, which only grows.
template <class T>
T* packing_buffer(std::int64_t count) {
  struct Free {
    void operator()(T* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  thread_local std::unique_ptr<T[], Free> buffer;
  thread_local std::int64_t size = 0;
  if (count > size) {
    size = std::max(count, 2 * size);
    buffer.reset(static_cast<T*>(::operator new[](static_cast<std::size_t>(size) * sizeof(T), std::align_val_t{64})));
  }
  return buffer.get();
}

template <class T>
MatmulArgs<T> arguments(const Factor<T>& a, const Product<T>& c) {
  MatmulArgs<T> args;
  args.m = a.rows;
  args.k = a.cols;
  args.a = a.data;
  args.a_row = a.row_stride;
  args.a_col = a.col_stride;
  args.c = c.data;
  args.c_row = c.stride;
  args.accumulate = c.accumulate;
  args.bias = c.bias;
  args.activates = c.activation.has_value();
  args.activation = c.activation.value_or(Activation::relu);
  return args;
}

template <class T>
void set_right(MatmulArgs<T>& args, const Factor<T>& b) {
  args.n = b.cols;
  args.k = b.rows;
  args.b = b.data;
  args.b_row = b.row_stride;
  args.b_col = b.col_stride;
}

void check(std::int64_t a_cols, std::int64_t b_rows) {
  if (a_cols != b_rows)
    throw Error("multiply: expected as many rows on the right as columns on the left, got a left matrix of " +
                counted(a_cols, "column") + " and a right one of " + counted(b_rows, "row"));
}

}  // namespace

template <class T>
void multiply(const Factor<T>& a, const Factor<T>& b, const Product<T>& c) {
  check(a.cols, b.rows);
  MatmulArgs<T> args = arguments(a, c);
  set_right(args, b);
  const TensorKernels<T>& kernels = tensor_kernels<T>();
  args.packed = packing_buffer<T>(kernels.packed_size(b.cols, b.rows));
  kernels.matmul(args);
}

template <class T>
std::int64_t Packed<T>::size(const Factor<T>& b) {
  return tensor_kernels<T>().packed_size(b.cols, b.rows);
}

template <class T>
Packed<T>::Packed(const Factor<T>& b, T* memory) : rows_(b.rows), cols_(b.cols), memory_(memory) {
  MatmulArgs<T> args;
  set_right(args, b);
  args.packed = memory_;
  tensor_kernels<T>().pack(args);
}

template <class T>
void Packed<T>::multiply(const Factor<T>& a, const Product<T>& c) const {
  check(a.cols, rows_);
  MatmulArgs<T> args = arguments(a, c);
  args.n = cols_;
  args.packed = memory_;
  tensor_kernels<T>().matmul(args);
}

template void multiply(const Factor<float>&, const Factor<float>&, const Product<float>&);
template void multiply(const Factor<double>&, const Factor<double>&, const Product<double>&);
template class Packed<float>;
template class Packed<double>;

}  // namespace rapt::inline v1
