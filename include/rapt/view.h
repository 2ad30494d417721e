#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>

#include "rapt/api.h"
#include "rapt/dtype.h"

namespace rapt::inline v1 {

using Shape = std::array<std::int64_t, 4>;

// Where an array is.
struct Device {
  enum class Kind : std::int32_t { cpu, cuda };
  Kind kind = Kind::cpu;
  std::int32_t index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

RAPT_API std::string to_string(const Device& device);

// A read-only array over the caller's memory. Strides count elements; a stride of 0 broadcasts.
struct ConstView {
  const void* data = nullptr;
  Dtype dtype = Dtype::f32;
  Shape shape{};
  Shape strides{};
  Device device{};

  explicit operator bool() const { return data != nullptr; }
};

struct View {
  void* data = nullptr;
  Dtype dtype = Dtype::f32;
  Shape shape{};
  Shape strides{};
  Device device{};

  explicit operator bool() const { return data != nullptr; }
  operator ConstView() const { return {data, dtype, shape, strides, device}; }
};

// Contiguous strides of a shape, last dimension fastest.
RAPT_API Shape contiguous_strides(const Shape& shape);

// One to four sizes, aligned to the right: {S, D} is [1, 1, S, D]. More sizes, or none, throw.
RAPT_API Shape right_aligned(std::span<const std::int64_t> sizes);
inline Shape right_aligned(std::initializer_list<std::int64_t> sizes) {
  return right_aligned(std::span<const std::int64_t>(sizes.begin(), sizes.size()));
}

RAPT_API std::string to_string(const Shape& shape);
RAPT_API std::int64_t element_count(const Shape& shape);

// A contiguous array: view(data, {batch, heads, sequence, dim}), or fewer sizes, aligned to the right; or
// view(data, sizes) with a vector or an array of sizes.
template <class T>
  requires is_storable<T> View view(T* data, std::span<const std::int64_t> sizes) {
    const Shape shape = right_aligned(sizes);
    return {data, dtype_of<T>(), shape, contiguous_strides(shape), {}};
  }

template <class T>
  requires is_storable<T> ConstView view(const T* data, std::span<const std::int64_t> sizes) {
    const Shape shape = right_aligned(sizes);
    return {data, dtype_of<T>(), shape, contiguous_strides(shape), {}};
  }

template <class T>
  requires is_storable<std::remove_const_t<T>>
auto view(T* data, std::initializer_list<std::int64_t> sizes) {
  return view(data, std::span<const std::int64_t>(sizes.begin(), sizes.size()));
}

// An array stored [batch, sequence, heads, dim], seen as [batch, heads, sequence, dim] without a copy.
template <class T>
auto view_bshd(T* data, std::int64_t batch, std::int64_t sequence, std::int64_t heads, std::int64_t dim) {
  auto result = view(data, {batch, heads, sequence, dim});
  result.strides = {sequence * heads * dim, dim, heads * dim, 1};
  return result;
}

}  // namespace rapt::inline v1
