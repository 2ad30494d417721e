#include "tensor/array.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "rapt/error.h"

namespace rapt::inline v1 {
namespace {

constexpr std::align_val_t kAlignment{64};

// Rounds to f32 so that a later rounding to fewer bits gives what rounding once would have: an inexact result gets an
// odd last bit, and can then never look like a tie.
float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Float16> || std::is_same_v<From, BFloat16>) {
    return convert<To>(to_float(value));
  } else if constexpr (std::is_same_v<To, Float16>) {
    if constexpr (std::is_same_v<From, float>) return to_float16(value);
    else return to_float16(round_to_odd(static_cast<double>(value)));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    if constexpr (std::is_same_v<From, float>) return to_bfloat16(value);
    else return to_bfloat16(round_to_odd(static_cast<double>(value)));
  } else {
    return static_cast<To>(value);
  }
}

template <class To, class From>
void convert_all(const Array& from, Array& to) {
  const std::span<const From> source = from.as<From>();
  const std::span<To> target = to.as<To>();
  for (std::size_t n = 0; n < source.size(); ++n) target[n] = convert<To>(source[n]);
}

template <class To>
void convert_from(const Array& from, Array& to) {
  switch (from.type()) {
    case ElementType::boolean: return convert_all<To, bool>(from, to);
    case ElementType::i8: return convert_all<To, std::int8_t>(from, to);
    case ElementType::i16: return convert_all<To, std::int16_t>(from, to);
    case ElementType::i32: return convert_all<To, std::int32_t>(from, to);
    case ElementType::i64: return convert_all<To, std::int64_t>(from, to);
    case ElementType::u8: return convert_all<To, std::uint8_t>(from, to);
    case ElementType::u16: return convert_all<To, std::uint16_t>(from, to);
    case ElementType::u32: return convert_all<To, std::uint32_t>(from, to);
    case ElementType::u64: return convert_all<To, std::uint64_t>(from, to);
    case ElementType::f16: return convert_all<To, Float16>(from, to);
    case ElementType::bf16: return convert_all<To, BFloat16>(from, to);
    case ElementType::f32: return convert_all<To, float>(from, to);
    case ElementType::f64: return convert_all<To, double>(from, to);
  }
}

}  // namespace

std::size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::boolean:
    case ElementType::i8:
    case ElementType::u8: return 1;
    case ElementType::i16:
    case ElementType::u16:
    case ElementType::f16:
    case ElementType::bf16: return 2;
    case ElementType::i32:
    case ElementType::u32:
    case ElementType::f32: return 4;
    case ElementType::i64:
    case ElementType::u64:
    case ElementType::f64: return 8;
  }
  return 0;
}

const char* name_of(ElementType type) {
  switch (type) {
    case ElementType::boolean: return "bool";
    case ElementType::i8: return "i8";
    case ElementType::i16: return "i16";
    case ElementType::i32: return "i32";
    case ElementType::i64: return "i64";
    case ElementType::u8: return "u8";
    case ElementType::u16: return "u16";
    case ElementType::u32: return "u32";
    case ElementType::u64: return "u64";
    case ElementType::f16: return "f16";
    case ElementType::bf16: return "bf16";
    case ElementType::f32: return "f32";
    case ElementType::f64: return "f64";
  }
  return "?";
}

bool is_float(ElementType type) { return type >= ElementType::f16; }

ElementType element_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return ElementType::f32;
    case Dtype::f64: return ElementType::f64;
    case Dtype::bf16: return ElementType::bf16;
    case Dtype::f16: return ElementType::f16;
  }
  return ElementType::f32;
}

std::string to_string(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t n = 0; n < shape.size(); ++n) {
    if (n > 0) text += ", ";
    text += std::to_string(shape[n]);
  }
  return text + "]";
}

std::int64_t checked_count(std::span<const std::int64_t> shape, std::size_t element_size) {
  const std::int64_t limit = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(element_size);
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) throw Error("array: expected sizes of 0 or more, got the shape " + to_string(shape));
    if (size == 0) empty = true;
    else if (product > limit / size)
      throw Error("array: expected a size that fits in 64 bits, got the shape " + to_string(shape));
    else product *= size;
  }
  return empty ? 0 : product;
}

void throw_count_mismatch(std::span<const std::int64_t> shape, std::size_t count) {
  throw Error("array: expected as many numbers as the shape " + to_string(shape) + " has, got " +
              std::to_string(count));
}

void Array::Free::operator()(std::byte* p) const { ::operator delete(p, kAlignment); }

Array::Array(ElementType type, std::vector<std::int64_t> shape)
    : type_(type), shape_(std::move(shape)), count_(checked_count(shape_, size_of(type))) {
  // An empty array still has an address, which distinguishes it from a missing one.
  const std::size_t size = bytes() > 0 ? bytes() : 1;
  data_.reset(static_cast<std::byte*>(::operator new(size, kAlignment)));
  std::memset(data_.get(), 0, size);
}

Array::Array(const Array& other) : type_(other.type_), shape_(other.shape_), count_(other.count_) {
  if (!other.data_) return;
  data_.reset(static_cast<std::byte*>(::operator new(bytes() > 0 ? bytes() : 1, kAlignment)));
  std::memcpy(data_.get(), other.data_.get(), bytes());
}

Array& Array::operator=(const Array& other) {
  if (this != &other) *this = Array(other);
  return *this;
}

void Array::require(ElementType type) const {
  if (type != type_)
    throw Error(std::string("array: expected elements of ") + name_of(type) + ", got " + name_of(type_));
}

Array Array::to(ElementType target) && {
  if (target == type_) return std::move(*this);
  return std::as_const(*this).to(target);
}

Array Array::to(ElementType target) const& {
  if (target == type_) return *this;
  Array result(target, shape_);
  switch (target) {
    case ElementType::f16: convert_from<Float16>(*this, result); break;
    case ElementType::bf16: convert_from<BFloat16>(*this, result); break;
    case ElementType::f32: convert_from<float>(*this, result); break;
    case ElementType::f64: convert_from<double>(*this, result); break;
    default: throw Error(std::string("array: convert: expected f16, bf16, f32 or f64, got ") + name_of(target));
  }
  return result;
}

void Array::reshape(std::vector<std::int64_t> shape) {
  if (checked_count(shape, size_of(type_)) != count_)
    throw Error("array: reshape: expected as many elements as " + to_string(shape_) + " has, got the shape " +
                to_string(shape));
  shape_ = std::move(shape);
}

Shape Array::view_shape() const {
  if (rank() > 4) throw Error("array: expected at most 4 dimensions, got the shape " + to_string(shape_));
  Shape shape{1, 1, 1, 1};
  for (int n = 0; n < rank(); ++n)
    shape[static_cast<std::size_t>(4 - rank() + n)] = shape_[static_cast<std::size_t>(n)];
  return shape;
}

Dtype Array::view_dtype() const {
  switch (type_) {
    case ElementType::f32: return Dtype::f32;
    case ElementType::f64: return Dtype::f64;
    case ElementType::bf16: return Dtype::bf16;
    case ElementType::f16: return Dtype::f16;
    default: throw Error(std::string("array: expected f16, bf16, f32 or f64, got ") + name_of(type_));
  }
}

View Array::view() {
  const Shape shape = view_shape();
  return {data_.get(), view_dtype(), shape, contiguous_strides(shape)};
}

ConstView Array::view() const {
  const Shape shape = view_shape();
  return {data_.get(), view_dtype(), shape, contiguous_strides(shape)};
}

}  // namespace rapt::inline v1
