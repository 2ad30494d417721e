#include "support/buffer.h"

#include <cstring>

#include "support/storage.h"

namespace support {
namespace {

// NaN in f32, bf16 and f16, and 1e303 in f64: no kernel produces it, and reading it is noticed.
constexpr std::byte kPattern[2] = {std::byte{0xa5}, std::byte{0x7f}};
// Odd, so that rows are not aligned for vectors.
constexpr std::int64_t kGuard = 67;
constexpr std::int64_t kOff = 3;
constexpr std::int64_t kAligned = 64;  // elements, so a multiple of 16 bytes of every type

std::byte pattern(std::size_t n) { return kPattern[n % 2]; }

void fill(std::byte* begin, std::size_t size) {
  for (std::size_t n = 0; n + 2 <= size; n += 2) std::memcpy(begin + n, kPattern, 2);
  if (size % 2 != 0) begin[size - 1] = kPattern[0];
}

bool is_filled(const std::byte* begin, std::size_t size) {
  if (size < 2) return size == 0 || *begin == kPattern[0];
  return std::memcmp(begin, kPattern, 2) == 0 && std::memcmp(begin, begin + 2, size - 2) == 0;
}

// The byte at which each row begins.
template <class F>
void for_each_row(const oracle::Sizes& shape, const oracle::Sizes& strides, std::size_t element, F f) {
  for (std::int64_t a = 0; a < shape[0]; ++a)
    for (std::int64_t b = 0; b < shape[1]; ++b)
      for (std::int64_t c = 0; c < shape[2]; ++c)
        f(static_cast<std::size_t>(a * strides[0] + b * strides[1] + c * strides[2]) * element);
}

}  // namespace

const char* label(Layout layout) {
  switch (layout) {
    case Layout::bhsd: return "bhsd";
    case Layout::bshd: return "bshd";
    case Layout::gaps: return "gaps";
    case Layout::aligned: return "aligned";
  }
  return "?";
}

Buffer::Buffer(rapt::Dtype dtype, const oracle::Sizes& shape, Layout layout)
    : Buffer(dtype, shape, layout, layout == Layout::aligned ? kAligned : kGuard, kGuard) {}

Buffer::Buffer(const oracle::Array& values, rapt::Dtype dtype, Layout layout)
    : Buffer(dtype, values.shape, layout, layout == Layout::aligned ? kAligned : kOff, 0) {
  set(values);
}

Buffer::Buffer(rapt::Dtype dtype, const oracle::Sizes& shape, Layout layout, std::int64_t guard_before,
               std::int64_t guard_after)
    : dtype_(dtype), shape_(shape) {
  const auto [batch, heads, rows, dim] = shape;
  switch (layout) {
    case Layout::aligned:
    case Layout::bhsd: strides_ = {heads * rows * dim, rows * dim, dim, 1}; break;
    case Layout::bshd: strides_ = {heads * rows * dim, dim, heads * dim, 1}; break;
    case Layout::gaps: {
      const std::int64_t row = dim + 3;
      const std::int64_t head = rows * row + 5;
      strides_ = {heads * head + 7, head, row, 1};
      break;
    }
  }
  std::int64_t last = 0;
  for (int n = 0; n < 4; ++n) last += (shape_[n] - 1) * strides_[n];
  if (oracle::Array::count(shape) == 0) last = -1;
  const std::size_t element = rapt::size_of(dtype);
  start_ = static_cast<std::size_t>(guard_before) * element;
  bytes_.resize(static_cast<std::size_t>(guard_before + last + 1 + guard_after) * element);
  fill(bytes_.data(), bytes_.size());
}

rapt::View Buffer::view() { return {bytes_.data() + start_, dtype_, shape_, strides_}; }
rapt::ConstView Buffer::view() const { return {bytes_.data() + start_, dtype_, shape_, strides_}; }

template <class F>
void Buffer::for_each_place(F f) const {
  const std::size_t element = rapt::size_of(dtype_);
  std::size_t n = 0;
  for_each_row(shape_, strides_, element, [&](std::size_t place) {
    place += start_;
    for (std::int64_t d = 0; d < shape_[3]; ++d, ++n, place += element) f(n, place);
  });
}

void Buffer::set(const oracle::Array& values) {
  for_each_place([&](std::size_t n, std::size_t place) { store(dtype_, values.data[n], bytes_.data() + place); });
}

oracle::Array Buffer::values() const {
  oracle::Array result(shape_);
  for_each_place([&](std::size_t n, std::size_t place) { result.data[n] = load(dtype_, bytes_.data() + place); });
  return result;
}

std::string Buffer::damage() const {
  const std::size_t element = rapt::size_of(dtype_);
  std::string problem;
  for_each_place([&](std::size_t n, std::size_t place) {
    if (bytes_[place] == kPattern[0] && is_filled(bytes_.data() + place, element) && problem.empty())
      problem = "element " + std::to_string(n) + " was not written";
  });
  if (!problem.empty()) return problem;
  // The guard bytes: what is left when the elements are reset to the pattern.
  std::vector<std::byte> outside = bytes_;
  for_each_row(shape_, strides_, element, [&](std::size_t place) {
    fill(outside.data() + start_ + place, static_cast<std::size_t>(shape_[3]) * element);
  });
  if (is_filled(outside.data(), outside.size())) return problem;
  std::size_t n = 0;
  while (outside[n] == pattern(n)) ++n;
  return "byte " + std::to_string(static_cast<long>(n) - static_cast<long>(start_)) + " outside was written";
}

bool Buffer::untouched() const { return is_filled(bytes_.data(), bytes_.size()); }

}  // namespace support
