#pragma once

#include <algorithm>

#include "backends/cpu/buffer.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/simd/kernels.h"
#include "backends/host/storage.h"

namespace rapt::inline v1 {

// A gradient array in the compute type: the caller's own memory where its type fits, else a copy that is converted at the end.
template <class T>
class Sink {
 public:
  // `group`: how many of the problem's heads share one of this array's. `written_once`: each row whole, so none is added up.
  Sink(const View& view, std::int64_t group, const Kernels<T>& kernels, int threads, bool written_once = false)
      : view_(view), kernels_(&kernels), threads_(threads) {
    if (!view) return;
    operand_ = make_operand("attend_backward", "gradient", view);
    operand_.group = group;
    if (view.dtype != dtype_of<T>() && written_once) {
      converts_ = true;
    } else if (view.dtype != dtype_of<T>()) {
      const Shape strides = contiguous_strides(view.shape);
      copy_ = Buffer(static_cast<std::size_t>(element_count(view.shape)) * sizeof(T));
      operand_.data = copy_.template as<T>();
      operand_.batch_stride = strides[0];
      operand_.head_stride = strides[1];
      operand_.row_stride = strides[2];
    }
  }

  // Clears the sums. Not needed if every row is written before it is added to.
  void clear() {
    if (!wanted() || converts_) return;
    for_each_row([&](std::int64_t, std::int64_t, std::int64_t, T* row) { std::fill_n(row, operand_.dim, T(0)); });
  }

  bool wanted() const { return static_cast<bool>(view_); }
  // Rows are converted as they are written, by store(); there is no array in the compute type.
  bool converts() const { return converts_; }
  void store(std::int64_t b, std::int64_t h, std::int64_t row, const T* from) const {
    kernels_->store_row(from, operand_.dim, operand_.at(b, h), row);
  }
  MatrixRef rows(std::int64_t b, std::int64_t h) const { return operand_.at(b, h); }
  std::ptrdiff_t row_stride() const { return operand_.row_stride; }
  T* at(std::int64_t b, std::int64_t h) const { return start() + operand_.offset(b, h); }

  void finish() {
    if (!wanted() || converts_ || view_.dtype == dtype_of<T>()) return;
    for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t r, T* row) {
      kernels_->store_row(row, operand_.dim, matrix_of(view_, b, h), r);
    });
  }

 private:
  T* start() const { return static_cast<T*>(operand_.data); }

  template <class F>
  void for_each_row(const F& f) const {
    constexpr std::int64_t kRows = 64;
    const std::int64_t blocks = (operand_.rows + kRows - 1) / kRows;
    parallel_for(operand_.batches * operand_.heads * blocks, threads_, [&](std::int64_t n, int) {
      const std::int64_t b = n / blocks / operand_.heads, h = n / blocks % operand_.heads, first = n % blocks * kRows;
      T* matrix = start() + b * operand_.batch_stride + h * operand_.head_stride;
      for (std::int64_t r = first; r < std::min(first + kRows, operand_.rows); ++r)
        f(b, h, r, matrix + r * operand_.row_stride);
    });
  }

  View view_;
  const Kernels<T>* kernels_;
  int threads_;
  Operand operand_;
  Buffer copy_;
  bool converts_ = false;
};

}  // namespace rapt::inline v1
