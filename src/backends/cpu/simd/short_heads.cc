#include <cmath>

#include "backends/cpu/simd/entry.h"
#include "backends/cpu/simd/flush_tiny.h"
#include "backends/cpu/simd/scores.h"

// Whole heads of short sequences: one tile of keys, so no running maximum and nothing to rescale. Every sum is made in the
// order of SoftmaxBlock, so a row has the bits that it has in a longer call.
namespace rapt::inline v1::RAPT_TARGET {
namespace {

RAPT_FN MatrixRef matrix_of(const ShortArray& array, std::int64_t b, std::int64_t h) {
  MatrixRef matrix = array.first;
  matrix.data = static_cast<char*>(matrix.data) + b * array.batch_bytes + h / array.group * array.head_bytes;
  return matrix;
}

template <class T>
class ShortHead {
 public:
  ShortHead(Arena& arena, const ShortTask<T>& task)
      : task_(task), narrow_(task.queries <= kNarrow), columns_(columns_for<T>(task.queries)) {
    dim_pad_ = padded<T>(task.dim);
    std::int64_t widest = 1;
    for (int s = 0; s < task.sets; ++s) widest = task.v[s].dim > widest ? task.v[s].dim : widest;
    value_pad_ = padded<T>(widest);
    q_rows_ = arena.take<T>(columns_ * dim_pad_);
    q_columns_ = arena.take<T>(task.dim * columns_);
    few_rows_ = arena.take<T>(kLanes<T> * dim_pad_);
    key_rows_ = arena.take<T>(kTileKeys * dim_pad_);
    value_rows_ = arena.take<T>(kTileKeys * value_pad_);
    weights_ = arena.take<T>(kTileKeys * columns_);
    sums_ = arena.take<T>(task.sets * value_pad_ * columns_);
    line_ = arena.take<T>(value_pad_ + kTileKeys);
    max_ = arena.take<T>(columns_);
    sum_ = arena.take<T>(columns_);
    factor_ = arena.take<T>(columns_);
    begin_ = arena.take<std::int64_t>(columns_);
    end_ = arena.take<std::int64_t>(columns_);
  }

  void run() {
    if (narrow_)
      for (std::int64_t n = 0; n < kLanes<T> * dim_pad_; ++n) few_rows_[n] = 0;
    std::int64_t b = task_.first / task_.heads, h = task_.first % task_.heads;
    for (std::int64_t n = task_.first; n < task_.first + task_.count; ++n) {
      if (!run_head(n, b, h)) task_.failed[n] = 1;
      if (++h == task_.heads) {
        h = 0;
        ++b;
      }
    }
  }

 private:
  bool run_head(std::int64_t n, std::int64_t b, std::int64_t h) {
    const int keys = static_cast<int>(task_.keys);
    std::ptrdiff_t key_stride = 0;
    const T* key_rows = rows_at(matrix_of(task_.k, b, h), 0, keys, task_.dim, key_rows_, dim_pad_, key_stride);
    for (std::int64_t first = 0; first < task_.queries; first += columns_) {
      const int count = static_cast<int>(task_.queries - first < columns_ ? task_.queries - first : columns_);
      load_queries(matrix_of(task_.q, b, h), first, count);
      if (task_.visibility) task_.visibility->ranges(b, first, count, begin_, end_);
      if (narrow_) weigh_few(count, key_rows, key_stride);
      else weigh_many(count, key_rows, key_stride);
      for (int c = 0; c < columns_; ++c) factor_[c] = sum_[c] == T(0) ? T(0) : T(1) / sum_[c];
      if (task_.out && !(narrow_ ? store_few(b, h, first, count) : store_many(b, h, first, count))) return false;
      write_rows(n, b, h, first, count);
    }
    return true;
  }

  void load_queries(const MatrixRef& q, std::int64_t first, int count) {
    load_rows(q, first, count, task_.dim, q_rows_, dim_pad_);
    if (task_.scale != T(1))
      for (std::int64_t n = 0; n < count * dim_pad_; ++n) q_rows_[n] *= task_.scale;
    if (narrow_) return;
    for (std::int64_t n = count * dim_pad_; n < columns_ * dim_pad_; ++n) q_rows_[n] = 0;
    transpose(q_rows_, dim_pad_, columns_, task_.dim, q_columns_, columns_);
  }

  // Weights [query][kTileKeys].
  void weigh_few(int count, const T* key_rows, std::ptrdiff_t key_stride) {
    const Tag<T> tag;
    const int keys = static_cast<int>(task_.keys);
    const int lanes = static_cast<int>(padded<T>(keys));
    if (keys < kLanes<T>) {
      load_rows({const_cast<T*>(key_rows), dtype_of<T>(), key_stride}, 0, keys, task_.dim, few_rows_, dim_pad_);
      key_rows = few_rows_;
      key_stride = dim_pad_;
    }
    for (int c = 0; c < count; ++c) {
      T* const line = weights_ + c * kTileKeys;
      dots({q_rows_ + c * dim_pad_, dim_pad_, 1, task_.dim}, key_rows, key_stride, keys, line);
      for (int j = keys; j < lanes; ++j) line[j] = -kInfinity<T>;
      if (task_.visibility)
        for (int j = 0; j < keys; ++j) line[j] = j >= begin_[c] && j < end_[c] ? line[j] : -kInfinity<T>;
      Vec<T> top = hn::Set(tag, -kInfinity<T>);
      for (int j = 0; j < lanes; j += kLanes<T>) top = hn::Max(hn::LoadU(tag, line + j), top);
      top = hn::MaxOfLanes(tag, top);
      if (hn::GetLane(top) > kLargest<T>) {
        clamp_scores(line, lanes);
        top = hn::Set(tag, kLargest<T>);
      }
      const Vec<T> shift = shift_of<T>(top);
      for (int j = 0; j < lanes; j += kLanes<T>)
        hn::StoreU(exp_weight(hn::Sub(hn::LoadU(tag, line + j), shift)), tag, line + j);
      T sum = 0;
      for (int j = 0; j < keys; ++j) sum += line[j];
      max_[c] = hn::GetLane(top);
      sum_[c] = sum;
    }
    for (int c = count; c < columns_; ++c) sum_[c] = 0;
  }

  // scores[keys] of one query. Past the keys whole vectors are written.
  static void dots(const FewQueries<T>& query, const T* rows, std::ptrdiff_t stride, int keys, T* scores) {
    constexpr int kVectors = 4;
    int j = 0;
    for (; j + kVectors * kLanes<T> <= keys; j += kVectors * kLanes<T>)
      few_dots_of<T, kVectors, false>(query, rows + j * stride, stride, kVectors * kLanes<T>, scores + j, 1);
    for (; j < keys; j += kLanes<T>) {
      // The last lanes may be computed twice; rows of fewer keys than lanes are padded.
      const int first = keys < kLanes<T> || j + kLanes<T> <= keys ? j : keys - kLanes<T>;
      few_dots_of<T, 1, false>(query, rows + first * stride, stride, kLanes<T>, scores + first, 1);
    }
  }

  // Weights [keys][columns].
  void weigh_many(int count, const T* key_rows, std::ptrdiff_t key_stride) {
    const Tag<T> tag;
    const int keys = static_cast<int>(task_.keys);
    product<T>({.m = keys,
                .n = columns_,
                .k = task_.dim,
                .a = key_rows,
                .a_row = key_stride,
                .a_col = 1,
                .b = q_columns_,
                .b_row = columns_,
                .c = weights_,
                .c_row = columns_,
                .accumulate = false});
    if (task_.visibility) hide(count);
    for (int c = 0; c < columns_; c += kLanes<T>) {
      Vec<T> top = hn::Set(tag, -kInfinity<T>);
      for (int j = 0; j < keys; ++j) top = hn::Max(hn::LoadU(tag, weights_ + j * columns_ + c), top);
      if (!hn::AllFalse(tag, hn::Gt(top, hn::Set(tag, kLargest<T>)))) {
        clamp_scores(weights_, static_cast<std::int64_t>(keys) * columns_);
        top = hn::Min(top, hn::Set(tag, kLargest<T>));
      }
      const Vec<T> shift = shift_of<T>(top);
      Vec<T> sum = hn::Zero(tag);
      for (int j = 0; j < keys; ++j) {
        T* const w = weights_ + j * columns_ + c;
        const Vec<T> weight = exp_weight(hn::Sub(hn::LoadU(tag, w), shift));
        sum = hn::Add(sum, weight);
        hn::StoreU(weight, tag, w);
      }
      hn::StoreU(top, tag, max_ + c);
      hn::StoreU(sum, tag, sum_ + c);
    }
  }

  void hide(int count) {
    for (int c = 0; c < count; ++c) {
      const std::int64_t end = end_[c] < task_.keys ? end_[c] : task_.keys;
      for (std::int64_t j = 0; j < begin_[c] && j < task_.keys; ++j) weights_[j * columns_ + c] = -kInfinity<T>;
      for (std::int64_t j = end; j < task_.keys; ++j) weights_[j * columns_ + c] = -kInfinity<T>;
    }
  }

  void add_values(T* sum, const T* rows, std::ptrdiff_t stride, std::int64_t dim, const T* weights, int keys) {
    few_values<T>(sum, rows, stride, dim, weights, 1, keys, false, line_);
  }

  bool store_few(std::int64_t b, std::int64_t h, std::int64_t first, int count) {
    const Tag<T> tag;
    const int keys = static_cast<int>(task_.keys);
    for (int s = 0; s < task_.sets; ++s) {
      const std::int64_t dim = task_.v[s].dim, pad = padded<T>(dim);
      std::ptrdiff_t stride = 0;
      const T* rows = rows_at(matrix_of(task_.v[s].array, b, h), 0, keys, dim, value_rows_, value_pad_, stride);
      for (int c = 0; c < count; ++c) {
        T* const sum = sums_ + (s * columns_ + c) * value_pad_;
        for (std::int64_t d = 0; d < pad; d += kLanes<T>) hn::StoreU(hn::Zero(tag), tag, sum + d);
        add_values(sum, rows, stride, dim, weights_ + c * kTileKeys, keys);
        if (!all_finite(sum, pad)) return false;
      }
    }
    for (int s = 0; s < task_.sets; ++s) {
      const std::int64_t dim = task_.v[s].dim;
      const MatrixRef out = matrix_of(task_.out[s], b, h);
      for (int c = 0; c < count; ++c) {
        T* const sum = sums_ + (s * columns_ + c) * value_pad_;
        const Vec<T> factor = hn::Set(tag, factor_[c]);
        for (std::int64_t d = 0; d < dim; d += kLanes<T>)
          hn::StoreU(hn::Mul(hn::LoadU(tag, sum + d), factor), tag, sum + d);
        store_row(sum, dim, out, first + c);
      }
    }
    return true;
  }

  bool store_many(std::int64_t b, std::int64_t h, std::int64_t first, int count) {
    const Tag<T> tag;
    const int keys = static_cast<int>(task_.keys);
    for (int s = 0; s < task_.sets; ++s) {
      const std::int64_t dim = task_.v[s].dim;
      T* const sums = sums_ + s * columns_ * value_pad_;
      std::ptrdiff_t stride = 0;
      const T* rows = rows_at(matrix_of(task_.v[s].array, b, h), 0, keys, dim, value_rows_, value_pad_, stride);
      product<T>({.m = dim,
                  .n = columns_,
                  .k = keys,
                  .a = rows,
                  .a_row = 1,
                  .a_col = stride,
                  .b = weights_,
                  .b_row = columns_,
                  .c = sums,
                  .c_row = columns_,
                  .accumulate = false});
      if (!all_finite(sums, dim * columns_)) return false;
    }
    for (int s = 0; s < task_.sets; ++s) {
      const std::int64_t dim = task_.v[s].dim;
      T* const sums = sums_ + s * columns_ * value_pad_;
      // A sum of −0 becomes 0, as where it is added to sums of 0.
      for (std::int64_t d = 0; d < dim; ++d)
        for (int c = 0; c < columns_; c += kLanes<T>) {
          T* const o = sums + d * columns_ + c;
          const Vec<T> sum = hn::Add(hn::LoadU(tag, o), hn::Zero(tag));
          hn::StoreU(hn::Mul(sum, hn::LoadU(tag, factor_ + c)), tag, o);
        }
      const MatrixRef out = matrix_of(task_.out[s], b, h);
      if (out.dtype == dtype_of<T>()) {
        transpose(sums, columns_, dim, count, static_cast<T*>(out.data) + first * out.stride, out.stride);
        continue;
      }
      for (int c = 0; c < count; ++c) {
        for (std::int64_t d = 0; d < dim; ++d) line_[d] = sums[d * columns_ + c];
        store_row(line_, dim, out, first + c);
      }
    }
    return true;
  }

  void write_rows(std::int64_t n, std::int64_t b, std::int64_t h, std::int64_t first, int count) {
    if (task_.row_max)
      for (int c = 0; c < count; ++c) {
        task_.row_max[n * task_.queries + first + c] = max_[c];
        task_.row_sum[n * task_.queries + first + c] = sum_[c];
      }
    if (!task_.lse.first.data) return;
    const MatrixRef lse = matrix_of(task_.lse, b, h);
    for (int c = 0; c < count; ++c) {
      const T value = sum_[c] == T(0) ? -kInfinity<T> : max_[c] + std::log(sum_[c]);
      store_row(&value, 1, lse, first + c);
    }
  }

  const ShortTask<T>& task_;
  const bool narrow_;
  const int columns_;
  std::int64_t dim_pad_ = 0, value_pad_ = 0;
  T* q_rows_ = nullptr;      // [columns][dim_pad]
  T* q_columns_ = nullptr;   // [dim][columns]
  T* few_rows_ = nullptr;    // [kLanes][dim_pad]: fewer keys than lanes, then zeros
  T* key_rows_ = nullptr;    // [kTileKeys][dim_pad], where they are converted
  T* value_rows_ = nullptr;  // [kTileKeys][value_pad], likewise
  T* weights_ = nullptr;     // scores, then weights
  T* sums_ = nullptr;        // [sets]: [dim][columns], or [columns][value_pad] of few queries
  T* line_ = nullptr;
  T* max_ = nullptr;
  T* sum_ = nullptr;
  T* factor_ = nullptr;
  std::int64_t* begin_ = nullptr;
  std::int64_t* end_ = nullptr;
};

template <class T>
std::size_t short_workspace_of(const ShortTask<T>& task) {
  Arena arena(nullptr);
  const ShortHead<T> head(arena, task);
  return arena.used();
}

template <class T>
void short_heads_of(const ShortTask<T>& task) {
  const FlushTiny flush;
  Arena arena(task.workspace);
  ShortHead<T>(arena, task).run();
}

}  // namespace

template <class T>
void fill_short_heads(Kernels<T>& kernels) {
  kernels.short_workspace = &short_workspace_of<T>;
  kernels.short_heads = &short_heads_of<T>;
}

template void fill_short_heads(Kernels<float>&);
template void fill_short_heads(Kernels<double>&);

}  // namespace rapt::inline v1::RAPT_TARGET
