#pragma once

#include <cstring>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/head_waves.h"
#include "kernels/storage.h"

// Where gradients are added up.
namespace rapt {

// A gradient array in the compute type: the caller's own memory where its type fits, else a copy that is converted at the end.
template <class T>
class Sink {
 public:
  // `group`: how many of the problem's heads share one of this array's.
  Sink(const View& view, std::int64_t group) : view_(view) {
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
    for (std::int64_t b = 0; b < operand_.batches; ++b)
      for (std::int64_t h = 0; h < operand_.heads; ++h)
        for (std::int64_t r = 0; r < operand_.rows; ++r)
          std::memset(start() + b * operand_.batch_stride + h * operand_.head_stride + r * operand_.row_stride, 0,
                      static_cast<std::size_t>(operand_.dim) * sizeof(T));
  }

  bool wanted() const { return static_cast<bool>(view_); }
  std::ptrdiff_t row_stride() const { return operand_.row_stride; }
  T* at(std::int64_t b, std::int64_t h) const { return start() + operand_.offset(b, h); }

  void finish() {
    if (wanted() && view_.dtype != dtype_of<T>()) store_array(start(), view_);
  }

 private:
  T* start() const { return static_cast<T*>(operand_.data); }

  View view_;
  Operand operand_;
  Buffer copy_;
};

// The gradient of one parameter. Small ones are kept apart for every task and added in the order of the tasks; large
// tables are added to directly where only one task touches a head, or kept once a task.
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
  std::int64_t rows() const { return value_.rows; }
  bool is_table() const { return role() == Role::relative_vector || role() == Role::relative_value; }
  std::int64_t private_bytes() const { return value_.size() * static_cast<std::int64_t>(is_vectors() ? sizeof(T) : sizeof(double)); }

  // In the order of the tasks: one private copy for each.
  void begin_wave(std::size_t tasks) {
    if (!wanted() || is_map()) return;
    const std::size_t size = static_cast<std::size_t>(value_.size());
    if (is_vectors()) {
      if (!value_.per_head) private_table_.assign(tasks * size, T(0));
    } else {
      private_sums_.assign(tasks * size, 0.0);
      owner_.assign(tasks, -1);
    }
  }

  // Points the kernel's task at this parameter's gradient for one head.
  void bind(int first_slot, std::size_t task, std::int64_t h, HeadTask<T>& head, BackwardTask<T>& backward) {
    if (!wanted() || is_map()) return;
    const std::size_t size = static_cast<std::size_t>(value_.size());
    if (is_vectors()) {
      head.relative[first_slot].grad =
          value_.per_head ? table_ + static_cast<std::size_t>(h) * size : private_table_.data() + task * size;
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
    for (std::size_t n = 0; n < size; ++n) private_sums_[task * size + n] += values[static_cast<std::size_t>(first_slot) + n];
  }

  void end_wave() {
    if (!wanted() || is_map()) return;
    const std::size_t size = static_cast<std::size_t>(value_.size());
    if (is_vectors()) {
      for (std::size_t n = 0; n < private_table_.size(); ++n) table_[n % size] += private_table_[n];
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
      for (std::int64_t c = 0; c < value_.cols; ++c) to[r * value_.cols + c] += static_cast<double>(part[r * stride + c]);
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
    return role() == Role::query_map || role() == Role::key_map || role() == Role::query_shift || role() == Role::relative_query_shift;
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
  Buffer own_table_;
  std::vector<double> private_sums_;
  std::vector<T> private_table_;
  std::vector<std::int64_t> owner_;
};

}  // namespace rapt
