#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/head_waves.h"
#include "kernels/parallel.h"
#include "kernels/storage.h"

// Where gradients are added up.
namespace rapt {

// A gradient array in the compute type: the caller's own memory where its type fits, else a copy that is converted at the end.
template <class T>
class Sink {
 public:
  // `group`: how many of the problem's heads share one of this array's.
  Sink(const View& view, std::int64_t group, int threads) : view_(view), threads_(threads) {
    if (!view) return;
    operand_ = make_operand("attend_backward", "gradient", view);
    operand_.group = group;
    if (view.dtype != dtype_of<T>()) {
      const Shape strides = contiguous_strides(view.shape);
      copy_ = Buffer(static_cast<std::size_t>(element_count(view.shape)) * sizeof(T));
      operand_.data = copy_.template as<T>();
      operand_.batch_stride = strides[0];
      operand_.head_stride = strides[1];
      operand_.row_stride = strides[2];
    }
    for_each_row([&](std::int64_t, std::int64_t, std::int64_t, T* row) {
      std::memset(row, 0, static_cast<std::size_t>(operand_.dim) * sizeof(T));
    });
  }

  bool wanted() const { return static_cast<bool>(view_); }
  std::ptrdiff_t row_stride() const { return operand_.row_stride; }
  T* at(std::int64_t b, std::int64_t h) const { return start() + operand_.offset(b, h); }

  void finish() {
    if (!wanted() || view_.dtype == dtype_of<T>()) return;
    for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t r, T* row) {
      store_row(row, operand_.dim, matrix_of(view_, b, h), r);
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
  int threads_;
  Operand operand_;
  Buffer copy_;
};

// The gradient of one parameter. Each task keeps its own part, and the parts are added in the order of the tasks. Tables
// too large for that are added up by tasks that take all of a head: `whole_heads`.
template <class T>
class ParameterSink {
 public:
  ParameterSink(const ParameterValue& value, const View& view, std::int64_t heads) : value_(value), view_(view) {
    if (!wanted()) return;
    total_ = value.size() * (value.per_head ? heads : 1);
    if (!is_vectors()) {
      sums_.assign(static_cast<std::size_t>(total_), 0.0);
      return;
    }
    // A table may be as large as the inputs: it is added up in the caller's memory where that is possible.
    in_place_ = view.dtype == dtype_of<T>();
    const Shape strides = contiguous_strides(view.shape);
    for (std::size_t n = 0; n < 4; ++n) in_place_ = in_place_ && (view.shape[n] == 1 || view.strides[n] == strides[n]);
    if (!in_place_) own_table_ = Buffer(static_cast<std::size_t>(total_) * sizeof(T));
    table_ = in_place_ ? static_cast<T*>(view.data) : own_table_.template as<T>();
    std::memset(table_, 0, static_cast<std::size_t>(total_) * sizeof(T));
  }

  bool wanted() const { return value_.given && static_cast<bool>(view_); }
  Role role() const { return value_.spec->role; }
  bool per_head() const { return value_.per_head; }
  bool is_table() const { return role() == Role::relative_vector || role() == Role::relative_value; }
  std::int64_t private_bytes() const {
    return value_.size() * static_cast<std::int64_t>(is_vectors() ? sizeof(T) : sizeof(double));
  }

  // In the order of the tasks: one private copy for each.
  void begin_wave(std::size_t tasks, bool whole_heads) {
    if (!wanted() || is_map()) return;
    const std::size_t size = static_cast<std::size_t>(value_.size());
    owner_.assign(tasks, -1);
    direct_ = whole_heads && value_.per_head;
    if (!is_vectors()) private_sums_.assign(tasks * size, 0.0);
    else if (!direct_) private_table_.assign(tasks * size, T(0));
  }

  // Points the kernel's task at this parameter's gradient for one head.
  void bind(int first_slot, std::size_t task, std::int64_t h, HeadTask<T>& head, BackwardTask<T>& backward) {
    if (!wanted() || is_map()) return;
    const std::size_t size = static_cast<std::size_t>(value_.size());
    if (is_vectors()) {
      owner_[task] = h;
      head.relative[first_slot].grad =
          direct_ ? table_ + static_cast<std::size_t>(h) * size : private_table_.data() + task * size;
      return;
    }
    // A task with several heads hands over what it has of the last one before it goes on.
    if (owner_[task] != h && owner_[task] >= 0 && value_.per_head) flush(task);
    owner_[task] = h;
    if (role() == Role::relative_value) head.relative[first_slot].value_grad = private_sums_.data() + task * size;
    if (role() == Role::pair_weight) backward.pair_weight_grads = private_sums_.data() + task * size;
  }

  void add_values(int first_slot, std::size_t task, std::int64_t, const double* values) {
    if (!wanted() || role() != Role::value) return;
    const std::size_t size = static_cast<std::size_t>(value_.size());
    for (std::size_t n = 0; n < size; ++n)
      private_sums_[task * size + n] += values[static_cast<std::size_t>(first_slot) + n];
  }

  void end_wave() {
    if (!wanted() || is_map()) return;
    const std::size_t size = static_cast<std::size_t>(value_.size());
    if (is_vectors()) {
      for (std::size_t task = 0; task < owner_.size() && !direct_; ++task) {
        if (owner_[task] < 0) continue;
        T* to = table_ + (value_.per_head ? static_cast<std::size_t>(owner_[task]) * size : 0);
        for (std::size_t n = 0; n < size; ++n) to[n] += private_table_[task * size + n];
      }
      private_table_.clear();
      return;
    }
    for (std::size_t task = 0; task < owner_.size(); ++task)
      if (owner_[task] >= 0) flush(task);
  }

  // A map's part, [rows][cols] with the given stride, of head h.
  void add_matrix(std::int64_t h, const T* part, std::ptrdiff_t stride) {
    double* to = sums_.data() + (value_.per_head ? h * value_.size() : 0);
    for (std::int64_t r = 0; r < value_.rows; ++r)
      for (std::int64_t c = 0; c < value_.cols; ++c)
        to[r * value_.cols + c] += static_cast<double>(part[r * stride + c]);
  }

  void finish() {
    if (!wanted()) return;
    if (is_vectors()) {
      if (!in_place_) store_array(table_, view_);
      return;
    }
    std::vector<T> numbers(sums_.begin(), sums_.end());
    store_array(numbers.data(), view_);
  }

 private:
  bool is_vectors() const { return role() == Role::relative_vector; }
  bool is_map() const {
    return role() == Role::query_map || role() == Role::key_map || role() == Role::query_shift ||
           role() == Role::relative_query_shift;
  }

  void flush(std::size_t task) {
    const std::size_t size = static_cast<std::size_t>(value_.size());
    double* to = sums_.data() + (value_.per_head ? static_cast<std::size_t>(owner_[task]) * size : 0);
    for (std::size_t n = 0; n < size; ++n) {
      to[n] += private_sums_[task * size + n];
      private_sums_[task * size + n] = 0;
    }
  }

  const ParameterValue& value_;
  View view_;
  std::int64_t total_ = 0;
  std::vector<double> sums_;
  T* table_ = nullptr;
  bool in_place_ = false;
  bool direct_ = false;
  Buffer own_table_;
  std::vector<double> private_sums_;
  std::vector<T> private_table_;
  std::vector<std::int64_t> owner_;
};

}  // namespace rapt
