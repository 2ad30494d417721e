#include "support/buffer.h"

#include <cstring>

#include "support/storage.h"

namespace support {
namespace {

// NaN in f32, bf16 and f16, and 1e303 in f64: no kernel makes it, and reading it shows.
constexpr std::byte kPattern[2] = {std::byte{0xa5}, std::byte{0x7f}};
// Odd, so that rows do not lie on the boundaries that vectors like.
constexpr std::int64_t kGuard = 67;
constexpr std::int64_t kOff = 3;
constexpr std::int64_t kAligned = 64;  // elements, so a multiple of 16 bytes of every type

std::byte pattern(std::size_t n) { return kPattern[n % 2]; }

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
  for (std::size_t n = 0; n < bytes_.size(); ++n) bytes_[n] = pattern(n);
}

rapt::View Buffer::view() { return {bytes_.data() + start_, dtype_, shape_, strides_}; }
rapt::ConstView Buffer::view() const { return {bytes_.data() + start_, dtype_, shape_, strides_}; }

template <class F>
void Buffer::for_each_place(F f) const {
  const std::int64_t element = static_cast<std::int64_t>(rapt::size_of(dtype_));
  std::size_t n = 0;
  for (std::int64_t a = 0; a < shape_[0]; ++a)
    for (std::int64_t b = 0; b < shape_[1]; ++b)
      for (std::int64_t c = 0; c < shape_[2]; ++c)
        for (std::int64_t d = 0; d < shape_[3]; ++d, ++n)
          f(n, start_ + static_cast<std::size_t>(
                            (a * strides_[0] + b * strides_[1] + c * strides_[2] + d * strides_[3]) * element));
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
  std::vector<bool> used(bytes_.size(), false);
  std::string problem;
  for_each_place([&](std::size_t n, std::size_t place) {
    bool written = false;
    for (std::size_t e = 0; e < element; ++e) {
      used[place + e] = true;
      written = written || bytes_[place + e] != pattern(place + e);
    }
    if (!written && problem.empty()) problem = "element " + std::to_string(n) + " was not written";
  });
  for (std::size_t n = 0; n < bytes_.size() && problem.empty(); ++n)
    if (!used[n] && bytes_[n] != pattern(n))
      problem = "byte " + std::to_string(static_cast<long>(n) - static_cast<long>(start_)) + " outside was written";
  return problem;
}

bool Buffer::untouched() const {
  for (std::size_t n = 0; n < bytes_.size(); ++n)
    if (bytes_[n] != pattern(n)) return false;
  return true;
}

}  // namespace support
