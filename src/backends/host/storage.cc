#include "backends/host/storage.h"

#include <algorithm>
#include <type_traits>
#include <vector>

namespace rapt::inline v1 {
namespace {

template <class T, class S>
T widen(S value) {
  if constexpr (std::is_arithmetic_v<S>) return static_cast<T>(value);
  else return static_cast<T>(to_float(value));
}

template <class S, class T>
S narrow(T value) {
  if constexpr (std::is_same_v<S, BFloat16>) return to_bfloat16(static_cast<float>(value));
  else if constexpr (std::is_same_v<S, Float16>) return to_float16(static_cast<float>(value));
  else return static_cast<S>(value);
}

template <class S, class T>
void read(const MatrixRef& src, std::int64_t row, std::int64_t dim, T* dst) {
  const S* from = static_cast<const S*>(src.data) + row * src.stride;
  std::transform(from, from + dim, dst, [](S value) { return widen<T>(value); });
}

template <class S, class T>
void write(const T* src, std::int64_t dim, const MatrixRef& dst, std::int64_t row) {
  S* to = static_cast<S*>(dst.data) + row * dst.stride;
  std::transform(src, src + dim, to, [](T value) { return narrow<S>(value); });
}

// Calls use(column, n) for each row of dst, n counting them in order. The column holds the row's numbers, one a row.
template <class Use>
void for_each_row(const View& dst, Use use) {
  std::int64_t n = 0;
  for (std::int64_t b = 0; b < dst.shape[0]; ++b)
    for (std::int64_t h = 0; h < dst.shape[1]; ++h)
      for (std::int64_t row = 0; row < dst.shape[2]; ++row) {
        MatrixRef column = matrix_of(dst, b, h);
        const std::int64_t offset = row * column.stride * static_cast<std::int64_t>(size_of(dst.dtype));
        column.data = static_cast<char*>(column.data) + offset;
        column.stride = dst.strides[3];
        use(column, n++);
      }
}

template <class T>
void store_column(const T* src, std::int64_t count, const MatrixRef& column) {
  if (column.stride == 1) return store_row(src, count, column, 0);
  for (std::int64_t n = 0; n < count; ++n) store_row(src + n, 1, column, n);
}

}  // namespace

template <class T>
void load_row(const MatrixRef& src, std::int64_t row, std::int64_t dim, T* dst) {
  switch (src.dtype) {
    case Dtype::f32: return read<float>(src, row, dim, dst);
    case Dtype::f64: return read<double>(src, row, dim, dst);
    case Dtype::bf16: return read<BFloat16>(src, row, dim, dst);
    case Dtype::f16: return read<Float16>(src, row, dim, dst);
  }
}

template <class T>
void store_row(const T* src, std::int64_t dim, const MatrixRef& dst, std::int64_t row) {
  switch (dst.dtype) {
    case Dtype::f32: return write<float>(src, dim, dst, row);
    case Dtype::f64: return write<double>(src, dim, dst, row);
    case Dtype::bf16: return write<BFloat16>(src, dim, dst, row);
    case Dtype::f16: return write<Float16>(src, dim, dst, row);
  }
}

template void load_row<float>(const MatrixRef&, std::int64_t, std::int64_t, float*);
template void load_row<double>(const MatrixRef&, std::int64_t, std::int64_t, double*);
template void store_row<float>(const float*, std::int64_t, const MatrixRef&, std::int64_t);
template void store_row<double>(const double*, std::int64_t, const MatrixRef&, std::int64_t);

template <class T>
void store_array(const T* src, const View& dst) {
  const std::int64_t dim = dst.shape[3];
  for_each_row(dst, [&](const MatrixRef& column, std::int64_t n) { store_column(src + n * dim, dim, column); });
}

template void store_array<float>(const float*, const View&);
template void store_array<double>(const double*, const View&);

void store_zeros(const View& dst) {
  const std::vector<float> zeros(static_cast<std::size_t>(dst.shape[3]));
  for_each_row(dst, [&](const MatrixRef& column, std::int64_t) { store_column(zeros.data(), dst.shape[3], column); });
}

MatrixRef matrix_of(const View& view, std::int64_t b, std::int64_t h) {
  const std::int64_t offset = b * view.strides[0] + h * view.strides[1];
  return {static_cast<char*>(view.data) + offset * static_cast<std::int64_t>(size_of(view.dtype)), view.dtype,
          view.strides[2]};
}

MatrixRef matrix_of(const ConstView& view, std::int64_t b, std::int64_t h) {
  return matrix_of(View{const_cast<void*>(view.data), view.dtype, view.shape, view.strides, view.device}, b, h);
}

void store_zeros(const Gradients& gradients) {
  std::vector<View> all{gradients.q, gradients.k, gradients.bias};
  all.insert(all.end(), gradients.v.begin(), gradients.v.end());
  for (const NamedGradient& g : gradients.parameters) all.push_back(g.value);
  for (const View& view : all)
    if (view) store_zeros(view);
}

}  // namespace rapt::inline v1
