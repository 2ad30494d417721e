#include <cmath>

#include "backends/cpu/simd/entry.h"
#include "backends/cpu/simd/flush_tiny.h"
#include "backends/cpu/simd/scores.h"
#include "backends/cpu/simd/short_array.h"

// Whole heads of short sequences: one tile of keys, so no running maximum and nothing to rescale. Every sum is made in the
// order of SoftmaxBlock, so a row has the bits that it has in a longer call.
namespace rapt::inline v1::RAPT_TARGET {
namespace {

// Queries that are as many lanes of keys; more are lanes themselves.
constexpr int kFewOfShort = 2;

template <class T>
class ShortHead {
 public:
  ShortHead(Arena& arena, const ShortTask<T>& task)
      : task_(task), narrow_(task.queries <= kFewOfShort), columns_(columns_for<T>(task.queries)) {
    dim_pad_ = padded<T>(task.dim);
    std::int64_t widest = 1;
    for (int s = 0; s < task.sets; ++s) widest = task.v[s].dim > widest ? task.v[s].dim : widest;
    value_pad_ = padded<T>(widest);
    q_rows_ = arena.take<T>((columns_ > kLanes<T> ? columns_ : kLanes<T>)*dim_pad_);
    q_columns_ = arena.take<T>(task.dim * columns_);
    lane_q_ = arena.take<const T*>(kLanes<T>);
    lane_k_ = arena.take<const T*>(kLanes<T>);
    rows_ = arena.take<Row>(kLanes<T>);
    for (T** of_lanes : {&scores_, &shifts_, &tops_}) *of_lanes = arena.take<T>(kLanes<T>);
    key_rows_ = arena.take<T>(kTileKeys * dim_pad_);
    value_rows_ = arena.take<T>(kTileKeys * value_pad_);
    weights_ = arena.take<T>(kTileKeys * columns_);
    sums_ = arena.take<T>(task.sets * value_pad_ * columns_);
    if (!narrow_) out_rows_ = arena.take<T>(columns_ * value_pad_);
    line_ = arena.take<T>(value_pad_ + kTileKeys);
    max_ = arena.take<T>(columns_);
    sum_ = arena.take<T>(columns_);
    factor_ = arena.take<T>(columns_);
    begin_ = arena.take<std::int64_t>(columns_);
    end_ = arena.take<std::int64_t>(columns_);
  }

  void run(std::int64_t first, std::int64_t count) {
    std::int64_t b = 0, h = first;
    if (h >= task_.heads) {
      b = first / task_.heads;
      h = first % task_.heads;
    }
    const bool few_keys = narrow_ && task_.keys < kLanes<T>;
    for (std::int64_t n = first; n < first + count; ++n) {
      if (few_keys) {
        for (int c = 0; c < task_.queries; ++c) add_row(n, b, h, c);
      } else if (!run_head(n, b, h)) {
        task_.failed[n] = 1;
      }
      if (++h == task_.heads) {
        h = 0;
        ++b;
      }
    }
    if (row_count_ > 0) run_rows();
  }

 private:
  // One or two queries and fewer keys than lanes: a lane is a pair of them, and rows of several heads fill a vector.
  struct Row {
    std::int64_t n, b, h;
    int c;  // the query
  };

  void add_row(std::int64_t n, std::int64_t b, std::int64_t h, int c) {
    const int keys = static_cast<int>(task_.keys);
    const int lane = row_count_ * keys;
    T* const q = q_rows_ + row_count_ * dim_pad_;
    load_row(matrix_of(task_.q, b, h), c, task_.dim, q);
    if (task_.scale != T(1))
      for (int d = 0; d < task_.dim; ++d) q[d] *= task_.scale;
    std::ptrdiff_t stride = 0;
    const T* k = rows_at(matrix_of(task_.k, b, h), 0, keys, task_.dim, key_rows_ + lane * dim_pad_, dim_pad_, stride);
    for (int j = 0; j < keys; ++j) {
      lane_q_[lane + j] = q;
      lane_k_[lane + j] = k + j * stride;
    }
    rows_[row_count_++] = {n, b, h, c};
    if ((row_count_ + 1) * keys > kLanes<T>) run_rows();
  }

  void run_rows() {
    const Tag<T> tag;
    const int keys = static_cast<int>(task_.keys), lanes = row_count_ * keys;
    for (int n = lanes; n < kLanes<T>; ++n) {
      lane_q_[n] = lane_q_[0];
      lane_k_[n] = lane_k_[0];
    }
    hn::StoreU(lane_dots(), tag, scores_);
    for (int r = 0; r < row_count_; ++r) {
      T* const s = scores_ + r * keys;
      if (task_.visibility) {
        task_.visibility->ranges(rows_[r].b, rows_[r].c, 1, begin_, end_);
        for (int j = 0; j < keys; ++j) s[j] = j >= begin_[0] && j < end_[0] ? s[j] : -kInfinity<T>;
      }
      T top = -kInfinity<T>;
      for (int j = 0; j < keys; ++j) top = s[j] > top ? s[j] : top;
      if (top > kLargest<T>) {
        for (int j = 0; j < keys; ++j) s[j] = s[j] > kLargest<T> ? kLargest<T> : s[j];
        top = kLargest<T>;
      }
      tops_[r] = top;
      for (int j = 0; j < keys; ++j) shifts_[r * keys + j] = top == -kInfinity<T> ? T(0) : top;
    }
    for (int n = lanes; n < kLanes<T>; ++n) shifts_[n] = 0;
    hn::StoreU(exp_weight(hn::Sub(hn::LoadU(tag, scores_), hn::LoadU(tag, shifts_))), tag, scores_);
    for (int r = 0; r < row_count_; ++r) {
      const Row& row = rows_[r];
      const T* const w = scores_ + r * keys;
      T sum = 0;
      for (int j = 0; j < keys; ++j) sum += w[j];
      max_[0] = tops_[r];
      sum_[0] = sum;
      factor_[0] = sum == T(0) ? T(0) : T(1) / sum;
      if (task_.out && !store_few(row.b, row.h, row.c, 1, w)) task_.failed[row.n] = 1;
      else write_rows(row.n, row.b, row.h, row.c, 1);
    }
    row_count_ = 0;
  }

  // q·k of every lane.
  Vec<T> lane_dots() const {
    const Tag<T> tag;
    constexpr int kBlock = 16 / sizeof(T);
    Vec<T> sum = hn::Zero(tag);
    int d = 0;
    for (; d + kBlock <= task_.dim; d += kBlock) {
      Vec<T> q[kBlock], k[kBlock];
      load_columns<T>(LanePieces<T>{lane_q_, d}, q);
      load_columns<T>(LanePieces<T>{lane_k_, d}, k);
#pragma GCC unroll 4
      for (int n = 0; n < kBlock; ++n) sum = hn::MulAdd(k[n], q[n], sum);
    }
    alignas(64) T q[kLanes<T>], k[kLanes<T>];
    for (; d < task_.dim; ++d) {
      for (int n = 0; n < kLanes<T>; ++n) {
        q[n] = lane_q_[n][d];
        k[n] = lane_k_[n][d];
      }
      sum = hn::MulAdd(hn::Load(tag, k), hn::Load(tag, q), sum);
    }
    return sum;
  }

  bool run_head(std::int64_t n, std::int64_t b, std::int64_t h) {
    const int keys = static_cast<int>(task_.keys);
    std::ptrdiff_t key_stride = 0;
    const T* key_rows = rows_at(matrix_of(task_.k, b, h), 0, keys, task_.dim, key_rows_, dim_pad_, key_stride);
    for (std::int64_t first = 0; first < task_.queries; first += columns_) {
      const int count = static_cast<int>(task_.queries - first < columns_ ? task_.queries - first : columns_);
      live_ = static_cast<int>(padded<T>(count));
      load_queries(matrix_of(task_.q, b, h), first, count);
      if (task_.visibility) task_.visibility->ranges(b, first, count, begin_, end_);
      if (narrow_) weigh_few(count, key_rows, key_stride);
      else weigh_many(count, key_rows, key_stride);
      for (int c = 0; c < live_; ++c) factor_[c] = sum_[c] == T(0) ? T(0) : T(1) / sum_[c];
      if (task_.out && !(narrow_ ? store_few(b, h, first, count, weights_) : store_many(b, h, first, count)))
        return false;
      write_rows(n, b, h, first, count);
    }
    return true;
  }

  void load_queries(const MatrixRef& q, std::int64_t first, int count) {
    load_rows(q, first, count, task_.dim, q_rows_, dim_pad_);
    if (task_.scale != T(1))
      for (std::int64_t n = 0; n < count * dim_pad_; ++n) q_rows_[n] *= task_.scale;
    if (narrow_) return;
    for (std::int64_t n = count * dim_pad_; n < live_ * dim_pad_; ++n) q_rows_[n] = 0;
    transpose(q_rows_, dim_pad_, live_, task_.dim, q_columns_, columns_);
  }

  // Weights [query][kTileKeys], of kLanes keys or more.
  void weigh_few(int count, const T* key_rows, std::ptrdiff_t key_stride) {
    const int keys = static_cast<int>(task_.keys);
    const int lanes = static_cast<int>(padded<T>(keys));
    for (int c = 0; c < count; ++c) {
      T* const line = weights_ + c * kTileKeys;
      few_dots<T, false>({q_rows_ + c * dim_pad_, dim_pad_, 1, 1, task_.dim}, key_rows, key_stride, keys,
                         static_cast<T*>(nullptr), line, 1);
      for (int j = keys; j < lanes; ++j) line[j] = -kInfinity<T>;
      if (task_.visibility)
        for (int j = 0; j < keys; ++j) line[j] = j >= begin_[c] && j < end_[c] ? line[j] : -kInfinity<T>;
      max_[c] = -kInfinity<T>;
      sum_[c] = 0;
      const T correction = few_weights<T>(line, lanes, kSlack<T>, max_[c]);
      few_sums<T>(line, 0, 1, keys, &correction, sum_ + c);
    }
    for (int c = count; c < live_; ++c) sum_[c] = 0;
  }

  // Weights [keys][columns].
  void weigh_many(int count, const T* key_rows, std::ptrdiff_t key_stride) {
    const Tag<T> tag;
    const int keys = static_cast<int>(task_.keys);
    product<T>({.m = keys,
                .n = live_,
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
    for (int c = 0; c < live_; c += kLanes<T>) {
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

  // weights [count][kTileKeys]
  bool store_few(std::int64_t b, std::int64_t h, std::int64_t first, int count, const T* weights) {
    const Tag<T> tag;
    const int keys = static_cast<int>(task_.keys);
    for (int s = 0; s < task_.sets; ++s) {
      const std::int64_t dim = task_.v[s].dim, pad = padded<T>(dim);
      std::ptrdiff_t stride = 0;
      const T* rows = rows_at(matrix_of(task_.v[s].array, b, h), 0, keys, dim, value_rows_, value_pad_, stride);
      for (int c = 0; c < count; ++c) {
        T* const sum = sums_ + (s * columns_ + c) * value_pad_;
        for (std::int64_t d = 0; d < pad; d += kLanes<T>) hn::StoreU(hn::Zero(tag), tag, sum + d);
        few_values<T>({sum, pad, weights + c * kTileKeys, 1, 0}, 1, rows, stride, dim, keys, false, false, line_);
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
                  .n = live_,
                  .k = keys,
                  .a = rows,
                  .a_row = 1,
                  .a_col = stride,
                  .b = weights_,
                  .b_row = columns_,
                  .c = sums,
                  .c_row = columns_,
                  .accumulate = false});
      if (!finite_rows(sums, columns_, dim, live_)) return false;
    }
    for (int s = 0; s < task_.sets; ++s) {
      const std::int64_t dim = task_.v[s].dim;
      T* const sums = sums_ + s * columns_ * value_pad_;
      // A sum of −0 becomes 0, as where it is added to sums of 0.
      for (std::int64_t d = 0; d < dim; ++d)
        for (int c = 0; c < live_; c += kLanes<T>) {
          T* const o = sums + d * columns_ + c;
          const Vec<T> sum = hn::Add(hn::LoadU(tag, o), hn::Zero(tag));
          hn::StoreU(hn::Mul(sum, hn::LoadU(tag, factor_ + c)), tag, o);
        }
      const MatrixRef out = matrix_of(task_.out[s], b, h);
      if (out.dtype == dtype_of<T>()) {
        transpose(sums, columns_, dim, count, static_cast<T*>(out.data) + first * out.stride, out.stride);
        continue;
      }
      transpose(sums, columns_, dim, count, out_rows_, value_pad_);
      for (int c = 0; c < count; ++c) store_row(out_rows_ + c * value_pad_, dim, out, first + c);
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
  int live_ = 0;  // columns of the block: as many vectors as its queries take
  std::int64_t dim_pad_ = 0, value_pad_ = 0;
  T* q_rows_ = nullptr;      // [columns][dim_pad]
  T* q_columns_ = nullptr;   // [dim][columns]
  T* key_rows_ = nullptr;    // [kTileKeys][dim_pad], where they are converted
  T* value_rows_ = nullptr;  // [kTileKeys][value_pad], likewise
  T* weights_ = nullptr;     // scores, then weights
  // Of few keys, by lane.
  const T** lane_q_ = nullptr;
  const T** lane_k_ = nullptr;
  T* scores_ = nullptr;
  T* shifts_ = nullptr;
  T* tops_ = nullptr;
  Row* rows_ = nullptr;
  int row_count_ = 0;
  T* sums_ = nullptr;      // [sets]: [dim][columns], or [columns][value_pad] of few queries
  T* out_rows_ = nullptr;  // [columns][value_pad], where they are converted
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
void short_heads_of(const ShortTask<T>& task, std::int64_t first, std::int64_t count, char* workspace) {
  const FlushTiny flush;
  Arena arena(workspace);
  ShortHead<T>(arena, task).run(first, count);
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
