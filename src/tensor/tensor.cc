#include "tensor/tensor.h"

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1 {

template <class T>
std::string to_string(const Tensor<T>& tensor) {
  std::string text = "[";
  for (int d = 0; d < tensor.rank; ++d) text += (d > 0 ? ", " : "") + std::to_string(tensor.size(d));
  return text + "]";
}

template <class T>
std::int64_t Tensor<T>::count() const {
  std::int64_t n = 1;
  for (int d = 0; d < rank; ++d) n *= size(d);
  return n;
}

template <class T>
bool Tensor<T>::is_contiguous() const {
  std::int64_t expected = 1;
  for (int d = rank - 1; d >= 0; --d) {
    if (size(d) != 1 && strides[static_cast<std::size_t>(d)] != expected) return false;
    expected *= size(d);
  }
  return true;
}

template <class T>
Tensor<T> Tensor<T>::reshape(std::initializer_list<std::int64_t> sizes) const {
  Tensor result = *this;
  result.rank = static_cast<int>(sizes.size());
  std::size_t place = 0;
  for (const std::int64_t n : sizes) result.shape[place++] = n;
  std::int64_t stride = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    result.strides[d] = stride;
    stride *= result.shape[d];
  }
  if (!is_contiguous() || result.count() != count())
    throw Error("reshape: expected contiguous numbers, as many as " + to_string(result) + ", got " + to_string(*this) +
                (is_contiguous() ? "" : " with gaps"));
  return result;
}

template <class T>
Tensor<T> Tensor<T>::slice(int dim, std::int64_t begin, std::int64_t end) const {
  const auto d = static_cast<std::size_t>(dim < 0 ? rank + dim : dim);
  if (d >= static_cast<std::size_t>(rank) || begin < 0 || begin > end || end > shape[d])
    throw Error("slice: expected a range within the dimension, got " + std::to_string(begin) + " to " +
                std::to_string(end) + " of dimension " + std::to_string(dim) + " of " + to_string(*this));
  Tensor result = *this;
  result.shape[d] = end - begin;
  result.data += begin * strides[d];
  if (grad) result.grad += begin * strides[d];
  return result;
}

template <class T>
Tensor<T> Tensor<T>::at(std::int64_t place) const {
  Tensor result = slice(0, place, place + 1);
  for (std::size_t d = 1; d < 4; ++d) {
    result.shape[d - 1] = shape[d];
    result.strides[d - 1] = strides[d];
  }
  --result.rank;
  return result;
}

template <class T>
Tensor<T> Tensor<T>::split_heads(std::int64_t heads) const {
  if (rank != 3 || heads < 1 || shape[2] % heads != 0)
    throw Error("split_heads: expected [steps, batch, width] with a width that the heads divide, got " +
                to_string(*this) + " and " + counted(heads, "head"));
  const std::int64_t dim = shape[2] / heads;
  Tensor result = *this;
  result.rank = 4;
  result.shape = {shape[1], heads, shape[0], dim};
  result.strides = {strides[1], dim, strides[0], 1};
  return result;
}

template <class T>
Shape Tensor<T>::aligned(const std::array<std::int64_t, 4>& sizes, std::int64_t fill) const {
  Shape result{fill, fill, fill, fill};
  for (int d = 0; d < rank; ++d) result[static_cast<std::size_t>(4 - rank + d)] = sizes[static_cast<std::size_t>(d)];
  return result;
}

template <class T>
Matrix<T> as_matrix(const Tensor<T>& tensor) {
  Matrix<T> m;
  m.data = tensor.data;
  m.grad = tensor.grad;
  m.cols = tensor.rank > 0 ? tensor.size(-1) : 1;
  m.rows = 1;
  m.stride = m.cols;
  bool fits = tensor.rank == 0 || tensor.strides[static_cast<std::size_t>(tensor.rank - 1)] == 1 || m.cols == 1;
  std::int64_t span = 0;
  for (int d = tensor.rank - 2; d >= 0; --d) {
    const std::int64_t n = tensor.size(d);
    const std::int64_t stride = tensor.strides[static_cast<std::size_t>(d)];
    if (n != 1) {
      if (span == 0) m.stride = stride;
      else if (stride != span) fits = false;
      span = stride * n;
    }
    m.rows *= n;
  }
  if (!fits) throw Error("tensor: expected rows with one stride, got " + to_string(tensor) + " with uneven strides");
  return m;
}

template struct Tensor<float>;
template struct Tensor<double>;
template Matrix<float> as_matrix(const Tensor<float>&);
template Matrix<double> as_matrix(const Tensor<double>&);
template std::string to_string(const Tensor<float>&);
template std::string to_string(const Tensor<double>&);

}  // namespace rapt::inline v1
