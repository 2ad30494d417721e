#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "backends/cpu/parallel.h"
#include "distributed/cells.h"

namespace rapt::inline v1::distributed {

// Keys and values of one piece, for each slot at hand.
struct KeyPieces {
  Span rows;
  std::vector<ConstView> k;
  std::vector<std::vector<ConstView>> v;
};

// Tasks that share nothing, on the library's threads: many at a time on one thread each, or one after the other on all. What
// is waited for meanwhile goes on between the tasks of the calling thread.
class Tasks {
 public:
  Tasks(int threads, std::function<void()> between) : threads_(threads), between_(std::move(between)) {}

  int workers() const { return threads_; }

  // f(task, worker, threads)
  template <class F>
  void run(std::int64_t count, const F& f) const {
    if (count < threads_) {
      for (std::int64_t n = 0; n < count; ++n) {
        f(n, 0, threads_);
        between_();
      }
      return;
    }
    const std::thread::id caller = std::this_thread::get_id();
    parallel_for(count, threads_, [&](std::int64_t n, int worker) {
      f(n, worker, 1);
      if (std::this_thread::get_id() == caller) between_();
    });
  }

 private:
  int threads_;
  std::function<void()> between_;
};

// Calls f(b, h, i) for every row of a slot's array.
template <class F>
void for_each_row(const Shape& shape, const F& f) {
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t i = 0; i < shape[2]; ++i) f(b, h, i);
}

template <class T>
T* row_at(const View& view, std::int64_t b, std::int64_t h, std::int64_t i) {
  return static_cast<T*>(view.data) + b * view.strides[0] + h * view.strides[1] + i * view.strides[2];
}
template <class T>
const T* row_at(const ConstView& view, std::int64_t b, std::int64_t h, std::int64_t i) {
  return static_cast<const T*>(view.data) + b * view.strides[0] + h * view.strides[1] + i * view.strides[2];
}

// f(n) for n = 0 … count−1, a constant number at a time, so that the compiler can unroll them.
template <class F>
void for_each_number(std::int64_t count, const F& f) {
  constexpr std::int64_t kTogether = 16;
  std::int64_t n = 0;
  for (; n + kTogether <= count; n += kTogether)
    for (std::int64_t m = 0; m < kTogether; ++m) f(n + m);
  for (; n < count; ++n) f(n);
}

// A contiguous array that owns its memory.
template <class T>
class Block {
 public:
  Block() = default;
  explicit Block(const Shape& shape) : shape_(shape), numbers_(static_cast<std::size_t>(element_count(shape))) {}

  View view() {
    // Without elements it still counts as an array.
    return {numbers_.empty() ? &none_ : numbers_.data(), dtype_of<T>(), shape_, contiguous_strides(shape_), {}};
  }
  std::vector<T>& numbers() { return numbers_; }

 private:
  Shape shape_{};
  std::vector<T> numbers_;
  T none_{};
};

}  // namespace rapt::inline v1::distributed
