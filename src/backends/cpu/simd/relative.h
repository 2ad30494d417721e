#pragma once

#include <limits>

#include "backends/cpu/simd/rows.h"

// The slots of a score that depend on the offset between key and query: tables of numbers, and queries times tables of
// vectors. A tile of keys × queries touches keys + queries − 1 offsets, so each product is made once an offset.
namespace rapt::inline v1::RAPT_TARGET {

// to[j][c] = from[j + columns − 1 − c][c]. In each vector the lanes' common shift is a matter of where to read; the rest
// is done by moving, for each bit, the lanes whose number has it clear.
template <class T>
void shear(const T* from, int keys, int columns, T* to) {
  const Tag<T> tag;
  const hn::RebindToSigned<Tag<T>> int_tag;
  for (int c = 0; c < columns; c += kLanes<T>) {
    const T* base = from + static_cast<std::ptrdiff_t>(columns - c - kLanes<T>) * columns + c;
    Vec<T> rows[2 * kLanes<T>];
    // A band of kLanes output rows at a time needs 2·kLanes − 1 input rows.
    for (int j0 = 0; j0 < keys; j0 += kLanes<T>) {
      const int live = keys - j0 < kLanes<T> ? keys - j0 : kLanes<T>;
      for (int r = 0; r < live + kLanes<T> - 1; ++r)
        rows[r] = hn::LoadU(tag, base + static_cast<std::ptrdiff_t>(j0 + r) * columns);
      for (int step = kLanes<T> / 2; step >= 1; step /= 2) {
        const auto bit = hn::And(hn::Iota(int_tag, 0), hn::Set(int_tag, step));
        const auto moves = hn::RebindMask(tag, hn::Eq(bit, hn::Zero(int_tag)));
        for (int r = 0; r < live + step - 1; ++r) rows[r] = hn::IfThenElse(moves, rows[r + step], rows[r]);
      }
      for (int r = 0; r < live; ++r) hn::StoreU(rows[r], tag, to + static_cast<std::ptrdiff_t>(j0 + r) * columns + c);
    }
  }
}

// The reverse, added up: to[j + columns − 1 − c][c] += from[j][c].
template <class T>
void unshear_add(const T* from, int keys, int columns, T* to) {
  const Tag<T> tag;
  const hn::RebindToSigned<Tag<T>> int_tag;
  for (int c = 0; c < columns; c += kLanes<T>) {
    T* base = to + static_cast<std::ptrdiff_t>(columns - c - kLanes<T>) * columns + c;
    Vec<T> rows[2 * kLanes<T>];
    for (int j0 = 0; j0 < keys; j0 += kLanes<T>) {
      const int live = keys - j0 < kLanes<T> ? keys - j0 : kLanes<T>;
      for (int r = 0; r < live; ++r) rows[r] = hn::LoadU(tag, from + static_cast<std::ptrdiff_t>(j0 + r) * columns + c);
      int height = live;
      for (int step = 1; step < kLanes<T>; step *= 2) {
        const auto bit = hn::And(hn::Iota(int_tag, 0), hn::Set(int_tag, step));
        const auto moves = hn::RebindMask(tag, hn::Eq(bit, hn::Zero(int_tag)));
        // Lanes that move leave a zero behind.
        for (int r = height; r < height + step; ++r) rows[r] = hn::Zero(tag);
        for (int r = height + step - 1; r >= 0; --r) {
          const Vec<T> above = r >= step ? rows[r - step] : hn::Zero(tag);
          rows[r] = hn::IfThenElse(moves, above, rows[r]);
        }
        height += step;
      }
      for (int r = 0; r < height; ++r) {
        T* at = base + static_cast<std::ptrdiff_t>(j0 + r) * columns;
        hn::StoreU(hn::Add(hn::LoadU(tag, at), rows[r]), tag, at);
      }
    }
  }
}

// One slot over one block of queries.
template <class T>
class RelativeSlot {
 public:
  // Memory for tiles of at most `keys` keys. For gradients too, where there are chunks of keys.
  void allocate(Arena& arena, const HeadTask<T>& head, const RelativeTable<T>& table, int keys, int columns,
                std::int64_t chunk_keys) {
    head_ = &head;
    table_ = &table;
    columns_ = columns;
    dim_pad_ = padded<T>(head.relative_dim);
    const bool vectors = table.role == Role::relative_vector;
    const std::int64_t offsets = keys + columns - 1;
    const std::int64_t rows = table.along == Along::position ? offsets : coordinates();
    values_ = arena.take<T>((vectors || table.along != Along::position ? rows * columns : offsets) + kLanes<T>);
    if (vectors && table.along == Along::position) {
      gathered_ = arena.take<T>(offsets * dim_pad_);
      products_ = arena.take<T>(offsets * columns);
    }
    if (chunk_keys > 0) {
      grads_ = arena.take<T>((vectors || table.along != Along::position ? rows * columns : offsets) + kLanes<T>);
      if (vectors && table.along == Along::position) {
        spread_ = arena.take<T>(offsets * columns);
        block_grads_ = arena.take<T>((chunk_keys + columns - 1) * dim_pad_);
      } else if (table.along == Along::position) {
        block_sums_ = arena.take<double>(chunk_keys + columns - 1);
      }
    }
  }

  // q_rows [columns][dim_pad] and transposed [dim][columns]; query_coordinate of each column on this slot's axis. The block
  // sees no keys but first_key … last_key − 1.
  void set_queries(std::int64_t first, std::int64_t first_key, std::int64_t last_key, const T* q_rows,
                   const T* q_columns, const T* query_row, const T* query_col) {
    first_query_ = first;
    q_rows_ = q_rows;
    q_columns_ = q_columns;
    axis_ = table_->along == Along::grid_row ? query_row : query_col;
    made_until_ = kNothing;
    if (table_->along == Along::position) return;
    find_spans(first_key, last_key);
    fill_grid();
  }

  void fill(std::int64_t first_key, int keys, const std::int32_t* key_coordinate, RelativeRows<T>& out) {
    if (table_->along != Along::position) {
      out.base = values_;
      out.grad = grads_;
      out.stride = columns_;
      out.coordinate = key_coordinate;
      return;
    }
    first_key_ = first_key;
    keys_ = keys;
    if (table_->role == Role::relative_value) {
      // Row j is the same list moved by one: numbers lie by descending offset.
      for (int x = 0; x < keys + columns_ - 1; ++x)
        values_[x] = table_->table[row_of(first_key + keys - 1 - first_query_ - x)];
      out.base = values_ + (keys - 1);
      out.grad = grads_ ? grads_ + (keys - 1) : nullptr;
      out.stride = -1;
      return;
    }
    const std::int64_t lowest = first_key - first_query_ - (columns_ - 1);
    const int rows = keys + columns_ - 1;
    constant_ = is_constant(lowest, rows);
    if (constant_) {
      multiply(lowest, 1, values_);
      made_until_ = kNothing;
    } else {
      // The first columns − 1 offsets were those of the tile before, where it lies right before this one.
      int known = 0;
      if (made_until_ == lowest + columns_ - 1) {
        known = columns_ - 1;
        for (std::int64_t n = 0; n < static_cast<std::int64_t>(known) * columns_; ++n)
          products_[n] = products_[n + static_cast<std::int64_t>(made_rows_ - known) * columns_];
      }
      multiply(lowest + known, rows - known, products_ + static_cast<std::ptrdiff_t>(known) * columns_);
      made_until_ = lowest + rows;
      made_rows_ = rows;
      shear(products_, keys, columns_, values_);
    }
    out.base = values_;
    out.grad = grads_;
    out.stride = constant_ ? 0 : columns_;
  }

  // Before a block of queries meets a chunk of keys.
  void begin_block(std::int64_t first_key, std::int64_t keys) {
    block_lowest_ = first_key - first_query_ - (columns_ - 1);
    block_offsets_ = keys + columns_ - 1;
    if (block_grads_ && table_->grad)
      for (std::int64_t n = 0; n < block_offsets_ * dim_pad_; ++n) block_grads_[n] = 0;
    if (block_sums_ && table_->value_grad)
      for (std::int64_t n = 0; n < block_offsets_; ++n) block_sums_[n] = 0;
    clear_grads(true);
  }

  // After the block: what its offsets have goes to the table. Where that is by offset, no other thread adds to these meanwhile.
  void add_to_table() const {
    for (std::int64_t r = 0; r < block_offsets_; ++r) {
      const std::int64_t offset = block_lowest_ + r;
      if (offset < lowest() || offset > highest()) continue;  // of padding
      const std::int64_t row = table_->grad_by_offset ? offset + table_->zero : row_of(offset);
      if (block_sums_ && table_->value_grad) table_->value_grad[row] += block_sums_[r];
      if (!block_grads_ || !table_->grad) continue;
      T* to = table_->grad + row * head_->relative_dim;
      for (int d = 0; d < head_->relative_dim; ++d) to[d] += block_grads_[r * dim_pad_ + d];
    }
  }

  // Before a tile (or, on a grid, before a block of queries): no gradient yet.
  void clear_grads(bool block) {
    if (block) waiting_ = 0;
    if (!grads_ || block != (table_->along != Along::position)) return;
    if (table_->along != Along::position) {
      each_coordinate([&](std::int64_t u) {
        for (int c = 0; c < columns_; ++c) grads_[u * columns_ + c] = 0;
      });
      return;
    }
    std::int64_t count = keys_ + columns_ - 1;
    if (table_->role == Role::relative_vector)
      count = constant_ ? columns_ : static_cast<std::int64_t>(keys_) * columns_;
    for (std::int64_t n = 0; n < count; ++n) grads_[n] = 0;
  }

  // After a tile: its gradients go to the table and to dq_rows [columns][dim_pad].
  void finish_tile(T* dq_rows) {
    if (table_->along != Along::position) return;
    if (table_->role == Role::relative_value) {
      if (!table_->value_grad) return;
      double* last = block_sums_ + (first_key_ + keys_ - 1 - first_query_ - block_lowest_);
      for (int x = 0; x < keys_ + columns_ - 1; ++x) last[-x] += static_cast<double>(grads_[x]);
      return;
    }
    const std::int64_t lowest = first_key_ - first_query_ - (columns_ - 1);
    if (constant_) {
      flush(dq_rows);
      pass_on(first_key_ + keys_ - 1 - first_query_, 1, grads_, dq_rows);  // the one offset that is never of padding
      return;
    }
    // Offsets that the next tile also touches wait for it: each is multiplied once.
    const int rows = keys_ + columns_ - 1;
    if (waiting_ > 0 && waiting_from_ != lowest) flush(dq_rows);
    for (std::int64_t n = static_cast<std::int64_t>(waiting_) * columns_;
         n < static_cast<std::int64_t>(rows) * columns_; ++n)
      spread_[n] = 0;
    unshear_add(grads_, keys_, columns_, spread_);
    pass_on(lowest, keys_, spread_, dq_rows);
    waiting_ = columns_ - 1;
    waiting_from_ = lowest + keys_;
    for (std::int64_t n = 0; n < static_cast<std::int64_t>(waiting_) * columns_; ++n)
      spread_[n] = spread_[n + static_cast<std::int64_t>(keys_) * columns_];
  }

  // After a block of queries: what waits, and on a grid everything.
  void finish_block(int count, T* dq_rows) {
    if (table_->along == Along::position) {
      flush(dq_rows);
      return;
    }
    for (int c = 0; c < count; ++c)
      each_coordinate([&](std::int64_t u) {
        const T g = grads_[u * columns_ + c];
        if (g == T(0)) return;
        const std::int64_t row = row_of(u - static_cast<std::int64_t>(axis_[c]));
        if (table_->role == Role::relative_value) {
          if (table_->value_grad) table_->value_grad[row] += static_cast<double>(g);
          return;
        }
        const T* vector = table_->table + row * head_->relative_dim;
        const T* q = q_rows_ + c * dim_pad_;
        if (dq_rows)
          for (int d = 0; d < head_->relative_dim; ++d) dq_rows[c * dim_pad_ + d] += g * vector[d];
        if (table_->grad) {
          T* target = table_->grad + row * head_->relative_dim;
          for (int d = 0; d < head_->relative_dim; ++d) target[d] += g * q[d];
        }
      });
  }

 private:
  static constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::min();

  void multiply(std::int64_t lowest, int rows, T* to) {
    const T* source = gather(lowest, rows);
    product<T>({.m = rows,
                .n = columns_,
                .k = head_->relative_dim,
                .a = source,
                .a_row = source_stride_,
                .a_col = 1,
                .b = q_columns_,
                .b_row = columns_,
                .c = to,
                .c_row = columns_,
                .accumulate = false});
  }

  // Gradients [rows][columns] of the offsets from lowest on.
  void pass_on(std::int64_t lowest, int rows, const T* grads, T* dq_rows) {
    for (int r = 0; r < rows; ++r) copy_table_row(row_of(lowest + r), gathered_ + r * dim_pad_);
    if (dq_rows)
      product<T>({.m = columns_,
                  .n = dim_pad_,
                  .k = rows,
                  .a = grads,
                  .a_row = 1,
                  .a_col = columns_,
                  .b = gathered_,
                  .b_row = dim_pad_,
                  .c = dq_rows,
                  .c_row = dim_pad_,
                  .accumulate = true});
    if (!table_->grad) return;
    product<T>({.m = rows,
                .n = dim_pad_,
                .k = columns_,
                .a = grads,
                .a_row = columns_,
                .a_col = 1,
                .b = q_rows_,
                .b_row = dim_pad_,
                .c = block_grads_ + (lowest - block_lowest_) * dim_pad_,
                .c_row = dim_pad_,
                .accumulate = true});
  }

  void flush(T* dq_rows) {
    if (waiting_ > 0) pass_on(waiting_from_, waiting_, spread_, dq_rows);
    waiting_ = 0;
  }

  // The offsets that a query and a key of this batch may have.
  std::int64_t lowest() const { return 1 - head_->queries - head_->query_shift; }
  std::int64_t highest() const { return head_->keys - 1 - head_->query_shift; }

  std::int64_t coordinates() const { return table_->along == Along::grid_row ? head_->grid_rows : head_->grid_cols; }

  // Offsets past the ends belong to queries or keys that are only padding.
  std::int64_t row_of(std::int64_t offset) const {
    const bool position = table_->along == Along::position;
    const std::int64_t low = position ? lowest() : 1 - coordinates();
    const std::int64_t high = position ? highest() : coordinates() - 1;
    const std::int64_t inside = offset < low ? low : (offset > high ? high : offset);
    return table_->index[inside + table_->zero];
  }

  bool is_constant(std::int64_t lowest, std::int64_t count) const {
    const std::int64_t row = row_of(lowest);
    for (std::int64_t n = 1; n < count; ++n)
      if (row_of(lowest + n) != row) return false;
    return true;
  }

  void copy_table_row(std::int64_t row, T* to) const {
    const T* from = table_->table + row * head_->relative_dim;
    for (int d = 0; d < head_->relative_dim; ++d) to[d] = from[d];
    for (std::int64_t d = head_->relative_dim; d < dim_pad_; ++d) to[d] = 0;
  }

  // The table's rows for these offsets: as they lie, where they follow each other, else copied.
  const T* gather(std::int64_t lowest, int rows) {
    const std::int64_t highest = lowest + rows - 1;
    if (rows == 1 || (table_->identity && lowest >= this->lowest() && highest <= this->highest())) {
      source_stride_ = head_->relative_dim;
      return table_->table + row_of(lowest) * head_->relative_dim;
    }
    source_stride_ = dim_pad_;
    for (int r = 0; r < rows; ++r) copy_table_row(row_of(lowest + r), gathered_ + r * dim_pad_);
    return gathered_;
  }

  // The coordinates of the keys of all tiles that have a key which the block sees: under a mask not all, as their number
  // would make the time grow with the grid's side.
  void find_spans(std::int64_t first_key, std::int64_t last_key) {
    for (auto& span : spans_) span = {0, 0};
    if (first_key >= last_key) return;
    const std::int64_t from = first_key < kTileKeys ? 0 : first_key - kTileKeys + 1;
    const std::int64_t to = last_key + kTileKeys - 1 < head_->keys ? last_key + kTileKeys - 1 : head_->keys;
    const std::int64_t begin = head_->first_key + from, last = head_->first_key + to - 1;
    const std::int64_t cols = head_->grid_cols;
    if (table_->along == Along::grid_row) spans_[0] = {begin / cols, last / cols + 1};
    else if (last - begin + 1 >= cols) spans_[0] = {0, cols};
    else if (begin % cols <= last % cols) spans_[0] = {begin % cols, last % cols + 1};
    else {
      spans_[0] = {0, last % cols + 1};
      spans_[1] = {begin % cols, cols};
    }
  }

  template <class F>
  void each_coordinate(F&& f) const {
    for (const Span& span : spans_)
      for (std::int64_t u = span.begin; u < span.end; ++u) f(u);
  }

  // On a grid a query meets few coordinates: its numbers for them are made once a block.
  void fill_grid() {
    const Tag<T> tag;
    for (int c = 0; c < columns_; ++c)
      each_coordinate([&](std::int64_t u) {
        const std::int64_t row = row_of(u - static_cast<std::int64_t>(axis_[c]));
        if (table_->role == Role::relative_value) {
          values_[u * columns_ + c] = table_->table[row];
          return;
        }
        const T* a = table_->table + row * head_->relative_dim;
        const T* b = q_rows_ + c * dim_pad_;
        Vec<T> sum = hn::Zero(tag);
        int d = 0;
        for (; d + kLanes<T> <= head_->relative_dim; d += kLanes<T>)
          sum = hn::MulAdd(hn::LoadU(tag, a + d), hn::LoadU(tag, b + d), sum);
        T rest = hn::GetLane(hn::SumOfLanes(tag, sum));
        for (; d < head_->relative_dim; ++d) rest += a[d] * b[d];
        values_[u * columns_ + c] = rest;
      });
  }

  const HeadTask<T>* head_ = nullptr;
  const RelativeTable<T>* table_ = nullptr;
  int columns_ = 0;
  std::int64_t dim_pad_ = 0;
  std::int64_t first_query_ = 0, first_key_ = 0;
  int keys_ = 0;
  bool constant_ = false;
  std::int64_t made_until_ = kNothing;  // products_ ends before this offset
  int made_rows_ = 0;
  int waiting_ = 0;  // offsets in spread_ whose gradients are not complete
  std::int64_t waiting_from_ = 0;
  const T* q_rows_ = nullptr;
  const T* q_columns_ = nullptr;
  const T* axis_ = nullptr;
  struct Span {
    std::int64_t begin, end;
  };
  Span spans_[2] = {};     // coordinates on a grid
  T* values_ = nullptr;    // what the score reads
  T* grads_ = nullptr;     // the same shape
  T* products_ = nullptr;  // [offsets][columns]: queries times the table's vectors
  T* gathered_ = nullptr;  // [offsets][dim_pad]
  T* spread_ = nullptr;    // [offsets][columns]
  // Of one block of queries and one chunk of keys, by offset from block_lowest_ on.
  T* block_grads_ = nullptr;      // [block_offsets][dim_pad]
  double* block_sums_ = nullptr;  // [block_offsets]
  std::int64_t block_lowest_ = 0, block_offsets_ = 0;
  std::ptrdiff_t source_stride_ = 0;
};

}  // namespace rapt::inline v1::RAPT_TARGET
