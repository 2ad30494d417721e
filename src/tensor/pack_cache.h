#pragma once

#include <vector>

#include "tensor/matmul.h"
#include "tensor/tape.h"

namespace rapt::inline v1 {

// Right factors that a decoder multiplies by at every step, packed at the first. They must not change in between.
template <class T>
class PackCache {
 public:
  const Packed<T>& get(const Factor<T>& b) {
    for (const Entry& entry : entries_)
      if (entry.data == b.data && entry.row_stride == b.row_stride && entry.cols == b.cols) return entry.packed;
    T* memory = static_cast<T*>(memory_.take(static_cast<std::size_t>(Packed<T>::size(b)) * sizeof(T)));
    entries_.push_back({b.data, b.row_stride, b.cols, Packed<T>(b, memory)});
    return entries_.back().packed;
  }

 private:
  struct Entry {
    const T* data;
    std::ptrdiff_t row_stride;
    std::int64_t cols;
    Packed<T> packed;
  };
  std::vector<Entry> entries_;
  Arena64 memory_;
};

}  // namespace rapt::inline v1
