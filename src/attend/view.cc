#include "rapt/view.h"

#include <algorithm>

#include "rapt/error.h"

namespace rapt::inline v1 {
namespace {

std::int64_t checked_product(std::int64_t a, std::int64_t b, const Shape& shape) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw Error("view: shape: expected fewer than 2^63 elements, got " + to_string(shape));
  return product;
}

void check_sizes(const Shape& shape) {
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t size) { return size < 0; }))
    throw Error("view: shape: expected sizes from 0, got " + to_string(shape));
}

}  // namespace

Shape contiguous_strides(const Shape& shape) {
  check_sizes(shape);
  Shape strides{};
  std::int64_t stride = 1;
  for (std::size_t n = shape.size(); n-- > 0;) {
    strides[n] = stride;
    if (n > 0) stride = checked_product(stride, shape[n], shape);
  }
  return strides;
}

Shape right_aligned(std::span<const std::int64_t> sizes) {
  Shape shape{1, 1, 1, 1};
  if (sizes.empty() || sizes.size() > shape.size())
    throw Error("view: sizes: expected 1 to 4 of them, got " + std::to_string(sizes.size()));
  std::copy_backward(sizes.begin(), sizes.end(), shape.end());
  check_sizes(shape);
  return shape;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t n = 0; n < shape.size(); ++n) {
    if (n > 0) text += ", ";
    text += std::to_string(shape[n]);
  }
  return text + "]";
}

std::string to_string(const Device& device) {
  return device.kind == Device::Kind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

std::int64_t element_count(const Shape& shape) {
  check_sizes(shape);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count = checked_product(count, size, shape);
  return count;
}

}  // namespace rapt::inline v1
