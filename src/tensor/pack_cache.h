#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "tensor/matmul.h"
#include "tensor/tape.h"

namespace rapt::inline v1 {

// Right factors that decoders multiply by at every step, packed at the first. Once all are added, threads may share them.
template <class T>
class PackCache {
 public:
  // These values do not change while the cache is in use: what lies elsewhere is not packed.
  void add(std::span<const T> constants) { constants_.push_back(constants); }

  // Empty: the factor is not one of the constants.
  std::optional<Packed<T>> get(const Factor<T>& b) {
    if (!std::ranges::any_of(constants_, [&](const auto& c) { return contains(c, b.data); })) return std::nullopt;
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : entries_)
      if (entry.is(b)) return entry.packed;
    T* memory = static_cast<T*>(memory_.take(static_cast<std::size_t>(Packed<T>::size(b)) * sizeof(T)));
    entries_.push_back({b, Packed<T>(b, memory)});
    return entries_.back().packed;
  }

 private:
  struct Entry {
    Factor<T> factor;
    Packed<T> packed;

    bool is(const Factor<T>& b) const {
      return factor.data == b.data && factor.rows == b.rows && factor.cols == b.cols &&
             factor.row_stride == b.row_stride && factor.col_stride == b.col_stride;
    }
  };
  static bool contains(std::span<const T> range, const T* place) {
    return !std::less<>()(place, range.data()) && std::less<>()(place, range.data() + range.size());
  }

  std::vector<std::span<const T>> constants_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
  Arena64 memory_;
};

// C (+)= A·B (+ bias), with B packed once where the tape's packs may keep it.
template <class T>
void multiply(const Tape<T>& tape, const Factor<T>& a, const Factor<T>& b, const Product<T>& c) {
  const std::optional<Packed<T>> packed = tape.packs() ? tape.packs()->get(b) : std::nullopt;
  if (packed) packed->multiply(a, c);
  else multiply(a, b, c);
}

}  // namespace rapt::inline v1
