#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "backends/cpu/head_waves.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/sharing.h"
#include "backends/cpu/simd/kernels.h"
#include "backends/host/storage.h"

namespace rapt::inline v1 {

// The gradient of one parameter, added up in an order that the shapes fix. Every head of a wave has sums of its own:
// - of large tables along positions by offset, which the tasks add to in the order of their queries;
// - of everything else as the parameter lies; a task adds up its own part, and adds that in the order of the keys;
// - of a formula's large tables in place, by one task of the head after the other: no task has a copy.
// After the wave the sums are added head by head.
template <class T>
class ParameterSink {
 public:
  ParameterSink(const ParameterValue& value, const View& view, std::int64_t heads, int threads)
      : value_(value), view_(view), threads_(threads) {
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
    clear(table_, total_);
  }

  bool wanted() const { return value_.given && static_cast<bool>(view_); }
  Role role() const { return value_.spec->role; }
  bool adds_by_offset() const { return adds() && by_offset(value_); }

  // What the sums of one head take.
  static std::int64_t wave_bytes(const ParameterValue& value) {
    if (!value.given || is_map(value.spec->role)) return 0;
    const auto offsets = static_cast<std::int64_t>(value.relative_rows.size());
    const std::int64_t rows = by_offset(value) ? offsets : value.rows;
    const bool vectors = value.spec->role == Role::relative_vector || value.spec->role == Role::relative_output;
    return rows * value.cols * static_cast<std::int64_t>(vectors ? sizeof(T) : sizeof(double));
  }

  void begin_wave(const std::vector<Head<T>>& wave, const HeadTask<T>& prototype, int workers) {
    if (!adds()) return;
    const auto offsets = static_cast<std::int64_t>(value_.relative_rows.size());
    owners_.clear();
    for (const Head<T>& head : wave) owners_.push_back(value_.per_head ? head.h : 0);
    by_offset_ = by_offset(value_);
    rows_ = by_offset_ ? offsets : value_.rows;
    if (by_offset_) {
      const RelativeTable<T>& relative = prototype.relative[value_.first_slot];
      const Sharing sharing(wave.size(), [&](std::size_t n) { return owners_[n]; });
      index_ = relative.index;
      direct_ = is_vectors() && relative.identity && index_[0] == 0 && value_.rows == offsets &&
                sharing.places == static_cast<std::int64_t>(wave.size());
      if (direct_) return;
    } else {
      tickets_ = std::make_unique<Tickets>(static_cast<std::int64_t>(wave.size()));
      const std::size_t bytes = static_cast<std::size_t>(value_.size()) * sizeof(double);
      while (!in_turn() && static_cast<int>(scratch_.size()) < workers) scratch_.emplace_back(bytes);
    }
    const std::int64_t numbers = rows_ * value_.cols * static_cast<std::int64_t>(wave.size());
    const std::size_t bytes = static_cast<std::size_t>(numbers) * (is_vectors() ? sizeof(T) : sizeof(double));
    if (wave_sums_.size() < bytes) wave_sums_ = Buffer(bytes);
    if (is_vectors()) clear(vectors_of(0), numbers);
    else clear(numbers_of(0), numbers);
  }

  // Points a task of head n of the wave at this parameter's gradient.
  void bind(std::size_t n, std::int64_t chunk, int worker, HeadTask<T>& head, BackwardTask<T>& task) {
    if (!adds() || role() == Role::value) return;
    if (in_turn()) {
      tickets_->wait(static_cast<std::int64_t>(n), chunk);
      head.score_tile.tables[value_.table].grad = numbers_of(n);
      return;
    }
    if (role() == Role::table) {
      const Buffer& part = scratch_[static_cast<std::size_t>(worker)];
      std::fill_n(part.template as<char>(), part.size(), '\0');
      head.score_tile.tables[value_.table].grad = part.template as<double>();
      return;
    }
    if (role() == Role::relative_output) {
      const Buffer& part = scratch_[static_cast<std::size_t>(worker)];
      std::fill_n(part.template as<char>(), part.size(), '\0');
      head.output_table.grad = part.template as<T>();
      return;
    }
    RelativeTable<T>& relative = head.relative[std::max(value_.first_slot, 0)];
    if (by_offset_) {
      relative.grad_by_offset = true;
      if (direct_) relative.grad = table_ + owners_[n] * value_.size();
      else if (is_vectors()) relative.grad = vectors_of(n);
      else relative.value_grad = numbers_of(n);
      return;
    }
    const Buffer& scratch = scratch_[static_cast<std::size_t>(worker)];
    std::fill_n(scratch.template as<char>(), scratch.size(), '\0');
    if (is_vectors()) relative.grad = scratch.template as<T>();
    else if (role() == Role::relative_value) relative.value_grad = scratch.template as<double>();
    else task.pair_weight_grads = scratch.template as<double>();
  }

  // After the task of head n's chunk; `values` are those of its slots.
  void finish_task(std::size_t n, std::int64_t chunk, int worker, const double* values) {
    if (!adds() || by_offset_) return;
    if (in_turn()) {
      tickets_->done(static_cast<std::int64_t>(n));
      return;
    }
    const Buffer& scratch = scratch_[static_cast<std::size_t>(worker)];
    tickets_->wait(static_cast<std::int64_t>(n), chunk);
    for (std::int64_t i = 0; i < value_.size(); ++i) {
      if (is_vectors()) vectors_of(n)[i] += scratch.template as<T>()[i];
      else numbers_of(n)[i] += role() == Role::value ? values[value_.first_slot + i] : scratch.template as<double>()[i];
    }
    tickets_->done(static_cast<std::int64_t>(n));
  }

  void abandon() {
    if (tickets_) tickets_->abandon();
  }

  // Head after head; columns are apart, so each may have a thread of its own.
  void end_wave() {
    if (!adds() || (by_offset_ && direct_)) return;
    constexpr std::int64_t kColumns = 16;
    const std::int64_t cols = value_.cols;
    parallel_for((cols + kColumns - 1) / kColumns, threads_, [&](std::int64_t part, int) {
      const std::int64_t begin = part * kColumns, end = std::min(cols, begin + kColumns);
      for (std::size_t n = 0; n < owners_.size(); ++n)
        for (std::int64_t r = 0; r < rows_; ++r) {
          const std::int64_t to = owners_[n] * value_.size() + (by_offset_ ? index_[r] : r) * cols;
          for (std::int64_t c = begin; c < end; ++c) {
            if (is_vectors()) table_[to + c] += vectors_of(n)[r * cols + c];
            else sums_[static_cast<std::size_t>(to + c)] += numbers_of(n)[r * cols + c];
          }
        }
    });
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
  bool is_vectors() const { return role() == Role::relative_vector || role() == Role::relative_output; }
  static bool is_map(Role role) {
    return role == Role::query_map || role == Role::key_map || role == Role::query_shift ||
           role == Role::relative_query_shift;
  }
  bool adds() const { return wanted() && !is_map(role()); }
  // By the table's size alone, so that sums have one order.
  bool in_turn() const { return role() == Role::table && value_.size() > kLargeTable; }
  static constexpr std::int64_t kLargeTable = std::int64_t{1} << 16;

  // The sums of head n of the wave, [rows_][cols].
  T* vectors_of(std::size_t n) const {
    return wave_sums_.template as<T>() + static_cast<std::int64_t>(n) * rows_ * value_.cols;
  }
  double* numbers_of(std::size_t n) const {
    return wave_sums_.template as<double>() + static_cast<std::int64_t>(n) * rows_ * value_.cols;
  }

  // A table as large as all offsets is too large for a copy in every task.
  static bool by_offset(const ParameterValue& value) {
    const bool table = value.spec->role == Role::relative_vector || value.spec->role == Role::relative_value;
    const auto offsets = static_cast<std::int64_t>(value.relative_rows.size());
    return table && value.spec->along == Along::position && 2 * value.rows > offsets;
  }

  template <class N>
  void clear(N* numbers, std::int64_t count) const {
    constexpr std::int64_t kPiece = std::int64_t{1} << 16;
    parallel_for((count + kPiece - 1) / kPiece, threads_, [&](std::int64_t n, int) {
      std::memset(numbers + n * kPiece, 0, static_cast<std::size_t>(std::min(kPiece, count - n * kPiece)) * sizeof(N));
    });
  }

  const ParameterValue& value_;
  View view_;
  int threads_;
  std::int64_t total_ = 0;
  std::vector<double> sums_;  // of all but vectors
  T* table_ = nullptr;        // of vectors
  bool in_place_ = false;
  Buffer own_table_;

  // Of the wave that runs now.
  std::vector<std::int64_t> owners_;  // [heads of the wave]: whose parameter
  bool by_offset_ = false;
  bool direct_ = false;  // tables that are themselves by offset, one for every head: they need no other sums
  std::int64_t rows_ = 0;
  const std::int32_t* index_ = nullptr;  // of offsets
  Buffer wave_sums_;                     // [heads of the wave][rows_][cols]
  std::unique_ptr<Tickets> tickets_;
  std::vector<Buffer> scratch_;  // [workers]: a task's own part
};

}  // namespace rapt::inline v1
