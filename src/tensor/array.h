#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "rapt/dtype.h"
#include "rapt/view.h"

namespace rapt::inline v1 {

// The element types of files. A boolean is one byte, 0 or 1.
enum class ElementType : std::uint8_t { boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64 };

std::size_t size_of(ElementType type);
const char* name_of(ElementType type);
bool is_float(ElementType type);
ElementType element_type(Dtype dtype);

template <class T>
constexpr ElementType element_type_of() {
  if constexpr (std::is_same_v<T, bool>) return ElementType::boolean;
  else if constexpr (std::is_same_v<T, std::int8_t>) return ElementType::i8;
  else if constexpr (std::is_same_v<T, std::int16_t>) return ElementType::i16;
  else if constexpr (std::is_same_v<T, std::int32_t>) return ElementType::i32;
  else if constexpr (std::is_same_v<T, std::int64_t>) return ElementType::i64;
  else if constexpr (std::is_same_v<T, std::uint8_t>) return ElementType::u8;
  else if constexpr (std::is_same_v<T, std::uint16_t>) return ElementType::u16;
  else if constexpr (std::is_same_v<T, std::uint32_t>) return ElementType::u32;
  else if constexpr (std::is_same_v<T, std::uint64_t>) return ElementType::u64;
  else if constexpr (std::is_same_v<T, Float16>) return ElementType::f16;
  else if constexpr (std::is_same_v<T, BFloat16>) return ElementType::bf16;
  else if constexpr (std::is_same_v<T, float>) return ElementType::f32;
  else if constexpr (std::is_same_v<T, double>) return ElementType::f64;
  else static_assert(sizeof(T) == 0, "not an element type");
}

// "[2, 3]"; the shape of a single number is "[]".
std::string to_string(std::span<const std::int64_t> shape);

// The product of the sizes. Throws if a size is negative or if `element_size` times the count exceeds 2⁶³ − 1; a size
// of 0 does not hide an overflow of the others.
std::int64_t checked_count(std::span<const std::int64_t> shape, std::size_t element_size);

// An array that owns its memory: any number of dimensions, row-major, aligned for SIMD.
class Array {
 public:
  Array() = default;
  Array(ElementType type, std::vector<std::int64_t> shape);  // all zero
  Array(const Array& other);
  Array& operator=(const Array& other);
  Array(Array&&) noexcept = default;
  Array& operator=(Array&&) noexcept = default;

  template <class T>
  static Array of(std::vector<std::int64_t> shape, std::span<const T> values);

  ElementType type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  std::int64_t count() const { return count_; }
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * size_of(type_); }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  explicit operator bool() const { return data_ != nullptr; }

  // The elements; throws if T is not their type.
  template <class T>
  std::span<T> as();
  template <class T>
  std::span<const T> as() const;

  // The same elements, rounded once to a floating-point type, ties to even.
  Array to(ElementType target) const&;
  Array to(ElementType target) &&;  // without a copy if the type is the same

  // The same elements in another shape of the same size.
  void reshape(std::vector<std::int64_t> shape);

  // A view for the library's functions: aligned to the right, up to four dimensions, floating point.
  View view();
  ConstView view() const;

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };

  void require(ElementType type) const;
  Shape view_shape() const;
  Dtype view_dtype() const;

  ElementType type_ = ElementType::f32;
  std::vector<std::int64_t> shape_;
  std::int64_t count_ = 0;
  std::unique_ptr<std::byte[], Free> data_;
};

template <class T>
std::span<T> Array::as() {
  require(element_type_of<T>());
  return {reinterpret_cast<T*>(data_.get()), static_cast<std::size_t>(count_)};
}

template <class T>
std::span<const T> Array::as() const {
  require(element_type_of<T>());
  return {reinterpret_cast<const T*>(data_.get()), static_cast<std::size_t>(count_)};
}

void throw_count_mismatch(std::span<const std::int64_t> shape, std::size_t count);

template <class T>
Array Array::of(std::vector<std::int64_t> shape, std::span<const T> values) {
  Array array(element_type_of<T>(), std::move(shape));
  if (static_cast<std::size_t>(array.count()) != values.size()) throw_count_mismatch(array.shape(), values.size());
  std::size_t n = 0;
  for (T& element : array.template as<T>()) element = values[n++];
  return array;
}

}  // namespace rapt::inline v1
