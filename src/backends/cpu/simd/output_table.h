#pragma once

#include "backends/cpu/simd/few_queries.h"

// A table of vectors that are added to values by the offset of key and query: each query's weights are summed by row of the
// table, and meet its vectors once.
namespace rapt::inline v1::RAPT_TARGET {

template <class T>
class OutputTableSums {
 public:
  OutputTableSums(Arena& arena, const HeadTask<T>& head, int columns) : head_(head), columns_(columns) {
    if (given()) sums_ = arena.take<T>(head.output_table.rows * columns);
  }

  bool given() const { return head_.output_table.table != nullptr; }

  void clear() {
    for (std::int64_t n = 0; n < size(); ++n) sums_[n] = 0;
  }
  void swap(OutputTableSums& other) { exchange(sums_, other.sums_); }
  bool finite() const { return all_finite(sums_, size()); }

  // In the order of the keys, so that a row's sums do not depend on its neighbours.
  void add(std::int64_t first_query, int count, const T* weights, std::ptrdiff_t key_step, std::ptrdiff_t column_step,
           std::int64_t first_key, int keys) {
    if (!given()) return;
    for (int j = 0; j < keys; ++j)
      for (int c = 0; c < count; ++c)
        sums_[row_of(first_query + c, first_key + j) * columns_ + c] += weights[j * key_step + c * column_step];
  }

  void rescale(const T* factor) {
    if (!given()) return;
    for (std::int64_t r = 0; r < head_.output_table.rows; ++r)
      for (int c = 0; c < columns_; ++c) sums_[r * columns_ + c] *= factor[c];
  }

  void merge(const OutputTableSums& other, const T* own, const T* others) {
    if (!given()) return;
    for (std::int64_t r = 0; r < head_.output_table.rows; ++r)
      for (int c = 0; c < columns_; ++c) {
        T& sum = sums_[r * columns_ + c];
        sum = sum * own[c] + other.sums_[r * columns_ + c] * others[c];
      }
  }

  void add_to_row(int column, std::int64_t dim, T* row) const {
    if (!given()) return;
    for (std::int64_t r = 0; r < head_.output_table.rows; ++r) {
      const T w = sums_[r * columns_ + column];
      if (w == T(0)) continue;
      const T* vector = head_.output_table.table + r * dim;
      for (std::int64_t d = 0; d < dim; ++d) row[d] += w * vector[d];
    }
  }

  // One key has all the weight.
  void add_one(std::int64_t query, std::int64_t key, std::int64_t dim, T* row) const {
    if (!given()) return;
    const T* vector = head_.output_table.table + row_of(query, key) * dim;
    for (std::int64_t d = 0; d < dim; ++d) row[d] += vector[d];
  }

  T at(std::int64_t row, int column) const { return sums_[row * columns_ + column]; }
  std::int64_t row_of(std::int64_t query, std::int64_t key) const {
    return head_.output_table.index[key - query - head_.query_shift + head_.output_table.zero];
  }

 private:
  std::int64_t size() const { return given() ? head_.output_table.rows * columns_ : 0; }

  const HeadTask<T>& head_;
  const int columns_;
  T* sums_ = nullptr;  // [rows][columns]
};

// The way back: ∂weight gets the gradient of its vector, and the table what its weights bring.
template <class T>
class OutputTableGrads {
 public:
  OutputTableGrads(Arena& arena, const HeadTask<T>& head, int columns)
      : head_(head), columns_(columns), sums_(arena, head, columns) {
    if (given()) products_ = arena.take<T>(head.output_table.rows * columns);
  }

  bool given() const { return sums_.given(); }

  // grad_columns [value_dim][columns]: the gradient of the block's outputs.
  void set_gradients(const T* grad_columns) {
    if (!given()) return;
    sums_.clear();
    product<T>({.m = head_.output_table.rows,
                .n = columns_,
                .k = head_.value_dim[0],
                .a = head_.output_table.table,
                .a_row = head_.value_dim[0],
                .a_col = 1,
                .b = grad_columns,
                .b_row = columns_,
                .c = products_,
                .c_row = columns_,
                .accumulate = false});
  }

  void add_weight_gradients(std::int64_t first_query, int count, std::int64_t first_key, int keys, T* grads) const {
    if (!given()) return;
    for (int j = 0; j < keys; ++j)
      for (int c = 0; c < count; ++c)
        grads[j * columns_ + c] += products_[sums_.row_of(first_query + c, first_key + j) * columns_ + c];
  }

  void add_weights(std::int64_t first_query, int count, const T* weights, std::int64_t first_key, int keys) {
    sums_.add(first_query, count, weights, columns_, 1, first_key, keys);
  }

  // After a block of queries: its weights by row of the table times the gradients of its outputs, [columns][stride].
  void finish_block(const T* grad_rows, std::ptrdiff_t stride) const {
    if (!given() || !head_.output_table.grad) return;
    const std::int64_t dim = head_.value_dim[0];
    for (std::int64_t r = 0; r < head_.output_table.rows; ++r)
      for (int c = 0; c < columns_; ++c) {
        const T w = sums_.at(r, c);
        if (w == T(0)) continue;
        T* to = head_.output_table.grad + r * dim;
        for (std::int64_t d = 0; d < dim; ++d) to[d] += w * grad_rows[c * stride + d];
      }
  }

 private:
  const HeadTask<T>& head_;
  const int columns_;
  OutputTableSums<T> sums_;
  T* products_ = nullptr;  // [rows][columns]: vectors of the table times gradients
};

}  // namespace rapt::inline v1::RAPT_TARGET
