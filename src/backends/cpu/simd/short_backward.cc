#include "backends/cpu/simd/backward_bf16.h"
#include "backends/cpu/simd/entry.h"
#include "backends/cpu/simd/flush_tiny.h"
#include "backends/cpu/simd/scores.h"
#include "backends/cpu/simd/short_array.h"

// Gradients of whole heads of short sequences. One tile holds all of a row, so δ is Σ weight·∂weight itself, and the sum of a
// row's gradients is known, and mended where rounding left more than its share, before anything is multiplied by them.
namespace rapt::inline v1::RAPT_TARGET {
namespace {

// Rows of one head, and what a product may do with them: B is read by whole vectors, A one number at a time.
template <class T>
struct ShortRows {
  const T* at = nullptr;
  std::ptrdiff_t stride = 0;
};

template <class T>
struct ShortTarget {
  T* at = nullptr;
  std::ptrdiff_t stride = 0;
  bool add = false;
};

template <class T>
class ShortBackward {
 public:
  ShortBackward(Arena& arena, const ShortBackwardTask<T>& task)
      : task_(task), keys_(static_cast<int>(task.keys)), columns_(static_cast<int>(padded<T>(task.queries))) {
    wants_score_ = task.dq.first.data || task.dk.first.data;
    dim_pad_ = padded<T>(task.dim);
    for (int s = 0; s < task.sets; ++s) widest_ = task.v[s].dim > widest_ ? task.v[s].dim : widest_;
    value_pad_ = padded<T>(widest_);
    q_rows_ = arena.take<T>(task.queries * dim_pad_);
    q_columns_ = arena.take<T>(task.dim * columns_);
    key_rows_ = arena.take<T>(task.keys * dim_pad_);
    value_rows_ = arena.take<T>(task.keys * value_pad_);
    grad_rows_ = arena.take<T>(task.sets * task.queries * value_pad_);
    grad_columns_ = arena.take<T>(widest_ * columns_);
    grad_out_ = arena.take<ShortRows<T>>(task.sets);
    dq_ = arena.take<T>(task.queries * dim_pad_);
    dk_ = arena.take<T>(task.keys * dim_pad_);
    dv_ = arena.take<T>(task.sets * task.keys * value_pad_);
    weights_ = arena.take<T>(task.keys * columns_);
    grads_ = arena.take<T>(task.keys * columns_);
    for (T** row : {&max_, &sum_, &lse_, &low_, &high_}) *row = arena.take<T>(columns_);
    begin_ = arena.take<std::int64_t>(columns_);
    end_ = arena.take<std::int64_t>(columns_);
    if (!task.bf16) return;
    values_ = arena.take<MatrixRef>(task.sets);
    grad_matrices_ = arena.take<MatrixRef>(task.sets);
    head_.dim = task.dim;
    head_.sets = task.sets;
    head_.bf16 = task.bf16;
    head_.v = values_;
    head_.value_dim = task.value_dim;
    bf16_.allocate(arena, head_, columns_, kTileKeys, round_up(task.dim, 32));
  }

  void run(std::int64_t first, std::int64_t count) {
    clear_padding();
    std::int64_t b = first / task_.heads, h = first % task_.heads;
    for (std::int64_t n = first; n < first + count; ++n) {
      run_head(n, b, h);
      if (++h == task_.heads) {
        h = 0;
        ++b;
      }
    }
  }

 private:
  // Columns past the last query: whatever they score weighs nothing, in every head.
  void clear_padding() {
    for (std::int64_t n = 0; n < task_.dim * columns_; ++n) q_columns_[n] = 0;
    for (std::int64_t n = 0; n < widest_ * columns_; ++n) grad_columns_[n] = 0;
    for (int c = 0; c < columns_; ++c) {
      max_[c] = kLargest<T>;
      sum_[c] = lse_[c] = 0;
      low_[c] = 0;
      high_[c] = static_cast<T>(keys_);
    }
  }

  void run_head(std::int64_t n, std::int64_t b, std::int64_t h) {
    const int queries = static_cast<int>(task_.queries);
    for (int c = 0; c < queries; ++c) {
      max_[c] = task_.row_max[n * queries + c];
      sum_[c] = task_.row_sum[n * queries + c];
    }
    if (task_.grad_lse.first.data)
      for (int c = 0; c < queries; ++c) load_row(matrix_of(task_.grad_lse, b, h), c, 1, lse_ + c);
    find_strips(b);
    const ShortRows<T> q = vector_rows(matrix_of(task_.q, b, h), queries, task_.dim, q_rows_);
    const ShortRows<T> k = vector_rows(matrix_of(task_.k, b, h), keys_, task_.dim, key_rows_);
    transpose(q.at, q.stride, queries, task_.dim, q_columns_, columns_);
    scale_queries();
    finite_ = finite_rows(q.at, q.stride, queries, task_.dim) && finite_rows(k.at, k.stride, keys_, task_.dim);
    multiply_tile(k, task_.dim, q_columns_, weights_, false);
    if (task_.bf16 && finite_ && run_bf16(b, h)) return;
    for (int s = 0; s < task_.sets; ++s) weight_gradient(s, b, h);
    for (int s = 0; s < strip_count_; ++s)
      for (int c = strips_[s].column; c < strips_[s].column + strips_[s].columns; c += kLanes<T>) weigh(strips_[s], c);
    for (int s = 0; s < task_.sets; ++s) value_gradient(s, b, h);
    if (!wants_score_) return;
    if (task_.dk.first.data) {
      const ShortTarget<T> dk = open(task_.dk, b, h, task_.dim, dk_);
      add_by_keys(grads_, q, task_.dim, dk);
      close(task_.dk, b, h, task_.dim, keys_, dk_);
    }
    if (task_.dq.first.data) query_gradient(b, h, k);
  }

  // What follows the scores, by products of bf16 pairs; false: not everything is finite.
  bool run_bf16(std::int64_t b, std::int64_t h) {
    const int queries = static_cast<int>(task_.queries);
    head_.q = matrix_of(task_.q, b, h);
    head_.k = matrix_of(task_.k, b, h);
    for (int s = 0; s < task_.sets; ++s) {
      values_[s] = matrix_of(task_.v[s].array, b, h);
      grad_matrices_[s] = matrix_of(task_.grad_out[s], b, h);
    }
    const Bf16Rows q{head_.q.data, head_.q.stride * 2};
    if (!bf16_.is_chunk_finite(0, keys_) || !bf16_.is_block_finite(q, grad_matrices_, 0, queries)) return false;
    bf16_.load_chunk(0, keys_);
    bf16_.load_queries(q, grad_matrices_, 0, queries, columns_);
    if (wants_score_) bf16_.weight_gradient(keys_, columns_, 0, grads_);
    for (int c = 0; c < columns_; c += kLanes<T>) weigh(strips_[0], c);
    bf16_.set_weights(weights_, keys_, columns_);
    for (int s = 0; s < task_.sets; ++s) {
      if (!task_.dv[s].first.data) continue;
      const GradientRows<T> rows{dv_, padded<T>(task_.v[s].dim), false};
      bf16_.value_gradient(s, keys_, columns_, rows);
      store_rounded(task_.dv[s], b, h, keys_, task_.v[s].dim, rows);
    }
    if (task_.dk.first.data) {
      bf16_.key_gradient(grads_, keys_, columns_, {dk_, dim_pad_, false});
      store_rounded(task_.dk, b, h, keys_, task_.dim, {dk_, dim_pad_, false});
    }
    if (task_.dq.first.data) {
      bf16_.query_gradient(grads_, keys_, columns_, 0, {dq_, dim_pad_, false});
      store_rounded(task_.dq, b, h, queries, task_.dim, {dq_, dim_pad_, false});
    }
    return true;
  }

  void store_rounded(const ShortArray& array, std::int64_t b, std::int64_t h, std::int64_t rows, std::int64_t dim,
                     const GradientRows<T>& from) const {
    if constexpr (std::is_same_v<T, float>) {
      const MatrixRef to = matrix_of(array, b, h);
      task_.bf16->store_rows(from.at, rows, dim, from.stride, static_cast<std::uint16_t*>(to.data), to.stride);
    }
  }

  // As the forward pass does it: the scores have its bits.
  void scale_queries() const {
    const Tag<T> tag;
    const Vec<T> scale = hn::Set(tag, task_.scale);
    if (task_.scale == T(1)) return;
    for (std::int64_t n = 0; n < task_.dim * columns_; n += kLanes<T>)
      hn::StoreU(hn::Mul(hn::LoadU(tag, q_columns_ + n), scale), tag, q_columns_ + n);
  }

  // As they lie, or copied to where whole vectors may be read.
  ShortRows<T> vector_rows(const MatrixRef& matrix, std::int64_t rows, std::int64_t dim, T* own) const {
    const std::int64_t pad = padded<T>(dim);
    if (matrix.dtype == dtype_of<T>() && dim == pad) return {static_cast<const T*>(matrix.data), matrix.stride};
    load_rows(matrix, 0, rows, dim, own, pad);
    return {own, pad};
  }

  // Where the gradient of a head's matrix is added up: in the caller's array where whole vectors fit.
  bool is_direct(const ShortArray& array, std::int64_t dim) const {
    return array.first.dtype == dtype_of<T>() && dim % kLanes<T> == 0;
  }
  ShortTarget<T> open(const ShortArray& array, std::int64_t b, std::int64_t h, std::int64_t dim, T* own) const {
    const bool add = h % array.group != 0;
    if (!is_direct(array, dim)) return {own, padded<T>(dim), add};
    const MatrixRef matrix = matrix_of(array, b, h);
    return {static_cast<T*>(matrix.data), matrix.stride, add};
  }
  void close(const ShortArray& array, std::int64_t b, std::int64_t h, std::int64_t dim, std::int64_t rows,
             const T* own) const {
    if (is_direct(array, dim) || h % array.group != array.group - 1) return;
    const MatrixRef matrix = matrix_of(array, b, h);
    for (std::int64_t r = 0; r < rows; ++r) store_row(own + r * padded<T>(dim), dim, matrix, r);
  }

  // At the edge of a mask strips of columns, each with the keys that some query of it sees.
  void find_strips(std::int64_t b) {
    strip_count_ = 1;
    strips_[0] = {0, columns_, 0, keys_};
    if (!task_.visibility) return;
    const int queries = static_cast<int>(task_.queries);
    task_.visibility->ranges(b, 0, queries, begin_, end_);
    for (int c = 0; c < queries; ++c) {
      const std::int64_t end = end_[c] < task_.keys ? end_[c] : task_.keys;
      low_[c] = static_cast<T>(begin_[c] < task_.keys ? begin_[c] : task_.keys);
      high_[c] = static_cast<T>(end < 0 ? 0 : end);
    }
    strip_count_ = 0;
    for (int column = 0; column < columns_; column += kStrip<T>) {
      const int columns = columns_ - column < kStrip<T> ? columns_ - column : kStrip<T>;
      T begin = static_cast<T>(keys_), end = 0;
      for (int c = column; c < column + columns && c < queries; ++c) {
        if (low_[c] >= high_[c]) continue;
        begin = low_[c] < begin ? low_[c] : begin;
        end = high_[c] > end ? high_[c] : end;
      }
      const bool none = begin >= end;
      strips_[strip_count_++] = {column, columns, none ? 0 : static_cast<int>(begin), none ? 0 : static_cast<int>(end)};
    }
  }

  // tile [keys][columns] (+)= rows·columns, of every strip.
  void multiply_tile(const ShortRows<T>& rows, std::int64_t dim, const T* columns, T* tile, bool add) const {
    for (int s = 0; s < strip_count_; ++s) {
      const Strip& strip = strips_[s];
      product<T>({.m = strip.end - strip.begin,
                  .n = strip.columns,
                  .k = dim,
                  .a = rows.at + strip.begin * rows.stride,
                  .a_row = rows.stride,
                  .a_col = 1,
                  .b = columns + strip.column,
                  .b_row = columns_,
                  .c = tile + strip.begin * columns_ + strip.column,
                  .c_row = columns_,
                  .accumulate = add});
    }
  }

  // dP = V·dOᵀ.
  void weight_gradient(int s, std::int64_t b, std::int64_t h) {
    const std::int64_t dim = task_.v[s].dim;
    const ShortRows<T>& grads = grad_out_[s] = vector_rows(matrix_of(task_.grad_out[s], b, h), task_.queries, dim,
                                                           grad_rows_ + s * task_.queries * value_pad_);
    ShortRows<T> values;
    values.at = rows_at(matrix_of(task_.v[s].array, b, h), 0, keys_, dim, value_rows_, value_pad_, values.stride);
    finite_ = finite_ && finite_rows(values.at, values.stride, keys_, dim) &&
              finite_rows(grads.at, grads.stride, task_.queries, dim);
    if (!wants_score_) return;
    transpose(grads.at, grads.stride, task_.queries, dim, grad_columns_, columns_);
    multiply_tile(values, dim, grad_columns_, grads_, s > 0);
  }

  // Of a vector of queries: weights from scores, and from ∂weight what the scores' gradients are, times the scale.
  void weigh(const Strip& strip, int c) {
    const Tag<T> tag;
    const Vec<T> zero = hn::Zero(tag), top = hn::Set(tag, kLargest<T>);
    const Vec<T> shift = shift_of<T>(hn::LoadU(tag, max_ + c));
    const Vec<T> total = hn::LoadU(tag, sum_ + c);
    const auto nothing = hn::Eq(total, zero);
    const Vec<T> factor = hn::IfThenZeroElse(nothing, hn::Div(hn::Set(tag, T(1)), total));
    const Vec<T> low = hn::LoadU(tag, low_ + c), high = hn::LoadU(tag, high_ + c);
    Vec<T> delta = zero;
    for (int j = strip.begin; j < strip.end; ++j) {
      T* const w = weights_ + j * columns_ + c;
      const Vec<T> raw = hn::LoadU(tag, w);
      const Vec<T> score = hn::IfThenElse(hn::Gt(raw, top), top, raw);
      const Vec<T> e = exp_weight(hn::Sub(score, shift));
      // A hidden pair has weight 0 even in a row whose sum is NaN, and a row without a sum has none, whatever it scores.
      auto none = hn::Or(nothing, hn::Eq(e, zero));
      if (task_.visibility) {
        const Vec<T> place = hn::Set(tag, static_cast<T>(j));
        none = hn::Or(none, hn::Or(hn::Lt(place, low), hn::Ge(place, high)));
      }
      const Vec<T> weight = hn::IfThenZeroElse(none, hn::Mul(e, factor));
      hn::StoreU(weight, tag, w);
      if (!wants_score_) continue;
      const Vec<T> part = hn::Mul(weight, hn::LoadU(tag, grads_ + j * columns_ + c));
      delta = hn::Add(delta, hn::IfThenZeroElse(none, part));
    }
    if (wants_score_) score_gradient(strip, c, delta);
  }

  // u∘(dP − δ); a pair without weight has no gradient, whatever its values are.
  void score_gradient(const Strip& strip, int c, Vec<T> delta) {
    const Tag<T> tag;
    const Vec<T> zero = hn::Zero(tag), scale = hn::Set(tag, task_.scale), lse = hn::LoadU(tag, lse_ + c);
    const Vec<T> lower = hn::Sub(delta, lse);
    Vec<T> sum = zero, size = zero;
    for (int j = strip.begin; j < strip.end; ++j) {
      const Vec<T> weight = hn::LoadU(tag, weights_ + j * columns_ + c);
      T* const g = grads_ + j * columns_ + c;
      const Vec<T> all = hn::Mul(hn::Mul(weight, scale), hn::Sub(hn::LoadU(tag, g), lower));
      const Vec<T> ds = hn::IfThenZeroElse(hn::Eq(weight, zero), all);
      hn::StoreU(ds, tag, g);
      sum = hn::Add(sum, ds);
      size = hn::Add(size, hn::Abs(ds));
    }
    // What a row's gradients sum to beside ∂lse is δ's error, which all that its keys have in common would multiply.
    const Vec<T> missing = hn::Sub(sum, hn::Mul(scale, lse));
    const Vec<T> allowed = hn::Mul(size, hn::Set(tag, std::numeric_limits<T>::epsilon() / 4));
    const auto wrong = hn::And(hn::Gt(hn::Abs(missing), allowed), hn::IsFinite(missing));
    if (hn::AllFalse(tag, hn::And(wrong, hn::Ne(hn::LoadU(tag, sum_ + c), zero)))) return;
    const Vec<T> rest = hn::IfThenElseZero(wrong, missing);
    for (int j = strip.begin; j < strip.end; ++j) {
      T* const g = grads_ + j * columns_ + c;
      hn::StoreU(hn::NegMulAdd(hn::LoadU(tag, weights_ + j * columns_ + c), rest, hn::LoadU(tag, g)), tag, g);
    }
  }

  void multiply(const ProductArgs<T>& args) const {
    if (finite_) product<T>(args);
    else careful_product<T>(args);
  }

  // target [keys][dim] (+)= tile·rows, rows those of the queries.
  void add_by_keys(const T* tile, const ShortRows<T>& rows, std::int64_t dim, const ShortTarget<T>& target) const {
    bool add = target.add;
    if (task_.visibility && !add) {
      for (int j = 0; j < keys_; ++j)
        for (std::int64_t d = 0; d < padded<T>(dim); d += kLanes<T>)
          hn::StoreU(hn::Zero(Tag<T>()), Tag<T>(), target.at + j * target.stride + d);
      add = true;
    }
    for (int s = 0; s < strip_count_; ++s) {
      const Strip& strip = strips_[s];
      multiply({.m = strip.end - strip.begin,
                .n = padded<T>(dim),
                .k = queries_of(strip),
                .a = tile + strip.begin * columns_ + strip.column,
                .a_row = columns_,
                .a_col = 1,
                .b = rows.at + strip.column * rows.stride,
                .b_row = rows.stride,
                .c = target.at + strip.begin * target.stride,
                .c_row = target.stride,
                .accumulate = add});
    }
  }

  std::int64_t queries_of(const Strip& strip) const {
    return task_.queries - strip.column < strip.columns ? task_.queries - strip.column : strip.columns;
  }

  // dV = P·dO.
  void value_gradient(int s, std::int64_t b, std::int64_t h) {
    if (!task_.dv[s].first.data) return;
    const std::int64_t dim = task_.v[s].dim;
    T* const own = dv_ + s * task_.keys * value_pad_;
    const ShortTarget<T> dv = open(task_.dv[s], b, h, dim, own);
    add_by_keys(weights_, grad_out_[s], dim, dv);
    close(task_.dv[s], b, h, dim, keys_, own);
  }

  void query_gradient(std::int64_t b, std::int64_t h, const ShortRows<T>& k) const {
    const ShortTarget<T> dq = open(task_.dq, b, h, task_.dim, dq_);
    for (int s = 0; s < strip_count_; ++s) {
      const Strip& strip = strips_[s];
      multiply({.m = queries_of(strip),
                .n = dim_pad_,
                .k = strip.end - strip.begin,
                .a = grads_ + strip.begin * columns_ + strip.column,
                .a_row = 1,
                .a_col = columns_,
                .b = k.at + strip.begin * k.stride,
                .b_row = k.stride,
                .c = dq.at + strip.column * dq.stride,
                .c_row = dq.stride,
                .accumulate = dq.add});
    }
    close(task_.dq, b, h, task_.dim, task_.queries, dq_);
  }

  const ShortBackwardTask<T>& task_;
  const int keys_, columns_;
  bool wants_score_ = false, finite_ = true;
  std::int64_t dim_pad_ = 0, value_pad_ = 0, widest_ = 1;
  Strip strips_[kShort / kStrip<T>];
  int strip_count_ = 0;
  // Copies where rows are converted or padded: [queries or keys][pad].
  T* q_rows_ = nullptr;
  T* key_rows_ = nullptr;
  T* value_rows_ = nullptr;
  T* grad_rows_ = nullptr;            // [sets]
  ShortRows<T>* grad_out_ = nullptr;  // [sets]
  T* q_columns_ = nullptr;            // [dim][columns]
  T* grad_columns_ = nullptr;         // [value_dim][columns]
  // Sums of gradients that the caller's arrays do not hold as they are.
  T* dq_ = nullptr;
  T* dk_ = nullptr;
  T* dv_ = nullptr;       // [sets]
  T* weights_ = nullptr;  // [keys][columns]: scores, then weights
  T* grads_ = nullptr;    // their gradients, then the scores'
  T* max_ = nullptr;      // of each column, as those that follow
  T* sum_ = nullptr;
  T* lse_ = nullptr;  // ∂lse
  T* low_ = nullptr;  // the keys that it sees
  T* high_ = nullptr;
  std::int64_t* begin_ = nullptr;
  std::int64_t* end_ = nullptr;
  // For products of bf16 pairs.
  HeadTask<T> head_;  // of which they read sizes and rows
  BackwardBf16<T> bf16_;
  MatrixRef* values_ = nullptr;  // [sets], as those that follow
  MatrixRef* grad_matrices_ = nullptr;
};

template <class T>
std::size_t short_backward_workspace_of(const ShortBackwardTask<T>& task) {
  Arena arena(nullptr);
  const ShortBackward<T> heads(arena, task);
  return arena.used();
}

template <class T>
void short_backward_of(const ShortBackwardTask<T>& task, std::int64_t first, std::int64_t count, char* workspace) {
  const FlushTiny flush;
  Arena arena(workspace);
  ShortBackward<T>(arena, task).run(first, count);
}

}  // namespace

template <class T>
void fill_short_backward(Kernels<T>& kernels) {
  kernels.short_backward_workspace = &short_backward_workspace_of<T>;
  kernels.short_backward = &short_backward_of<T>;
}

template void fill_short_backward(Kernels<float>&);
template void fill_short_backward(Kernels<double>&);

}  // namespace rapt::inline v1::RAPT_TARGET
