#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "oracle/problem.h"
#include "rapt/view.h"

namespace support {

// How an array lies in memory. gaps: unused elements after every row, head and batch. aligned: as bhsd, from a multiple of
// 16 bytes on, where the others start at an odd place.
enum class Layout { bhsd, bshd, gaps, aligned };

const char* label(Layout layout);

// An array of any storage type, filled with a pattern that is NaN. Outputs have guard bytes around and between their
// elements; arrays made from values end where the allocation ends, so that sanitizers see reads past it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(rapt::Dtype dtype, const oracle::Sizes& shape, Layout layout = Layout::bhsd);
  Buffer(const oracle::Array& values, rapt::Dtype dtype, Layout layout = Layout::bhsd);

  rapt::View view();
  rapt::ConstView view() const;
  rapt::Dtype dtype() const { return dtype_; }
  const oracle::Sizes& shape() const { return shape_; }

  void set(const oracle::Array& values);
  oracle::Array values() const;
  // Every byte, guards included: equal buffers hold equal bits.
  const std::vector<std::byte>& bytes() const { return bytes_; }

  // What is wrong after a call that should have written every element and nothing else; empty if nothing.
  std::string damage() const;
  // Whether nothing was written at all.
  bool untouched() const;

 private:
  Buffer(rapt::Dtype dtype, const oracle::Sizes& shape, Layout layout, std::int64_t guard_before,
         std::int64_t guard_after);
  template <class F>
  void for_each_place(F f) const;

  rapt::Dtype dtype_ = rapt::Dtype::f32;
  oracle::Sizes shape_{};
  oracle::Sizes strides_{};
  std::vector<std::byte> bytes_;
  std::size_t start_ = 0;
};

}  // namespace support
