#include "backends/cpu/simd/backward_lines.h"
#include "backends/cpu/simd/converted_rows.h"
#include "backends/cpu/simd/entry.h"
#include "backends/cpu/simd/few_gradients.h"
#include "backends/cpu/simd/flush_tiny.h"
#include "backends/cpu/simd/output_table.h"
#include "backends/cpu/simd/score_gradients.h"

// Gradients from one chunk of keys: every block of queries is scored again from its row sums, tile by tile.
namespace rapt::inline v1::RAPT_TARGET {
namespace {

// Keys of a chunk: its rows, values and both gradients stay in the L2 cache.
template <class T>
std::int64_t chunk_keys(const HeadTask<T>& head) {
  std::int64_t width = 2 * padded<T>(head.dim);
  for (int s = 0; s < head.sets; ++s) width += 2 * padded<T>(head.value_dim[s]);
  width = width < 1 ? 1 : width;  // rows may have no numbers
  const std::int64_t fit = (std::int64_t{512} << 10) / (width * static_cast<std::int64_t>(sizeof(T)));
  const std::int64_t tiles = fit / kTileKeys;
  // One block of queries reads them once: what it leaves is written soonest from a smaller cache.
  const std::int64_t most = head.queries <= kMostColumns<T> ? 4 : 16;
  return kTileKeys * (tiles < 1 ? 1 : (tiles > most ? most : tiles));
}

template <class T>
class BackwardChunk {
 public:
  BackwardChunk(Arena& arena, const BackwardTask<T>& task)
      : task_(task),
        head_(*task.head),
        columns_(columns_for<T>(head_.queries)),
        threshold_(head_.normalizer->threshold),
        scores_(arena, head_, columns_, task.most_keys),
        table_(arena, head_, columns_),
        rows_(arena, head_, task, head_.queries <= kMostColumns<T>) {
    const std::int64_t keys = task.most_keys;
    dim_pad_ = scores_.dim_pad();
    keys_ = arena.take<T>(keys * dim_pad_);
    dk_ = arena.take<T>(keys * dim_pad_);
    dk_stride_ = dim_pad_;
    if (task.dk) {
      dk_ = task.dk;
      dk_stride_ = task.dk_stride;
    }
    dq_ = arena.take<T>(columns_ * dim_pad_);
    if (head_.program->raw) dq_columns_ = arena.take<T>(head_.dim * columns_);
    if (scores_.has_relative_vectors()) dr_ = arena.take<T>(columns_ * scores_.relative_pad());
    if (head_.bf16) bf16_.allocate(arena, head_, columns_, keys, scores_.bf16_dim());
    if (lines_.fits(head_)) lines_.allocate(arena, head_);
    tile_ = arena.take<T>(kTileKeys * columns_);
    grad_tile_ = arena.take<T>(kTileKeys * columns_);
    if (is_program()) slope_tile_ = arena.take<T>(kTileKeys * columns_);
    if (head_.normalizer->parameter_gradient) kept_ = arena.take<T>(kTileKeys * columns_);
    for (T** row : {&max_, &second_, &delta_, &delta_rest_, &sums_, &sizes_}) *row = arena.take<T>(columns_);
    values_ = arena.take<Values>(head_.sets);
    dv_ = arena.take<T*>(head_.sets);
    grad_rows_ = arena.take<T*>(head_.sets);
    grad_columns_ = arena.take<T*>(head_.sets);
    value_stride_ = arena.take<std::ptrdiff_t>(head_.sets);
    dv_stride_ = arena.take<std::ptrdiff_t>(head_.sets);
    for (int s = 0; s < head_.sets; ++s) {
      const std::int64_t pad = padded<T>(head_.value_dim[s]);
      T* pieces[4] = {arena.take<T>(keys * pad), arena.take<T>(keys * pad), arena.take<T>(columns_ * pad),
                      arena.take<T>(head_.value_dim[s] * columns_)};
      if (!values_) continue;
      values_[s].copy = pieces[0];
      const bool given = task.dv && task.dv[s];
      dv_[s] = given ? task.dv[s] : pieces[1];
      dv_stride_[s] = given ? task.dv_stride[s] : pad;
      grad_rows_[s] = pieces[2];
      grad_columns_[s] = pieces[3];
      value_stride_[s] = pad;
    }
  }

  void run() {
    bool loaded = false;
    for (std::int64_t n = task_.first_block; n < task_.last_block; ++n) {
      if (!task_.order->enter_block(n)) continue;
      const bool touched = (!task_.correct || task_.correct[n]) && run_block(n, loaded);
      task_.order->begin_block(n);
      if (touched) {
        add_query_gradients(n);
        scores_.add_to_tables();
      }
      task_.order->end_block(n);
    }
    if (!loaded) {
      clear_sums();
      rows_.store_nothing(0, task_.count);
    }
    // The queries of bf16 products do not have the scale in them.
    if (head_.bf16 && scores_.bf16_scale() != T(1) && task_.want_dk && !rows_.writes_dk())
      for (std::int64_t j = 0; j < task_.count; ++j)
        for (std::int64_t d = 0; d < dim_pad_; ++d) dk_[j * dk_stride_ + d] *= scores_.bf16_scale();
    rows_.store_sums(dk_, dk_stride_, dv_, dv_stride_);
    task_.order->finish(dk_, dk_stride_, dv_, dv_stride_);
  }

 private:
  struct Values {
    T* copy;  // where they are copied
    const T* rows;
    std::ptrdiff_t stride;
  };

  void load_chunk() {
    finite_ = true;
    if (head_.bf16) {
      bf16_.load_chunk(task_.first_key, task_.count);
      finite_ = bf16_.is_chunk_finite(task_.first_key, task_.count);
      key_rows_ = keys_;  // not filled before they are needed
      key_stride_ = dim_pad_;
    } else {
      few_ = takes_few() && FewGradients<T>(head_, task_, 0, columns_).finite(task_.count);
      if (!few_) load_wide_chunk();
    }
    // A block that sees all keys and comes first writes what others add to.
    fresh_ = task_.want_score && threshold_ != Threshold::first_largest && head_.content && !head_.program->raw &&
             !head_.program->visible_tile && scores_.sees_all(task_.first_key, task_.count);
    if (!fresh_) clear_sums();
  }

  void load_wide_chunk() {
    if (head_.content) {
      key_rows_ = padded_rows(head_.k, head_.dim, keys_, key_stride_);
      finite_ = finite_rows(key_rows_, key_stride_, task_.count, head_.dim);
    }
    for (int s = 0; s < head_.sets; ++s) {
      Values& v = values_[s];
      v.rows = padded_rows(head_.v[s], head_.value_dim[s], v.copy, v.stride);
      finite_ = finite_ && finite_rows(v.rows, v.stride, task_.count, head_.value_dim[s]);
    }
  }

  // The task's rows as they lie, or copied to where whole vectors may be read.
  const T* padded_rows(const MatrixRef& from, std::int64_t dim, T* copy, std::ptrdiff_t& stride) const {
    if (from.dtype == dtype_of<T>() && dim % kLanes<T> == 0) {
      stride = from.stride;
      return static_cast<const T*>(from.data) + task_.first_key * from.stride;
    }
    stride = padded<T>(dim);
    load_rows(from, task_.first_key, task_.count, dim, copy, stride);
    return copy;
  }

  void clear_sums() {
    for (std::int64_t j = 0; j < task_.count && !rows_.writes_dk(); ++j)
      for (std::int64_t d = 0; d < dim_pad_; ++d) dk_[j * dk_stride_ + d] = 0;
    for (int s = 0; s < head_.sets; ++s)
      for (std::int64_t j = 0; j < task_.count && !rows_.writes_dv(s); ++j)
        for (std::int64_t d = 0; d < value_stride_[s]; ++d) dv_[s][j * dv_stride_[s] + d] = 0;
  }

  // Where the products of a tile go.
  GradientRows<T> dk_of_tile(std::int64_t offset, int keys) {
    return rows_.writes_dk() ? own_tile(keys, dim_pad_)
                             : GradientRows<T>{dk_ + offset * dk_stride_, dk_stride_, !fresh_};
  }
  GradientRows<T> dv_of_tile(int s, std::int64_t offset, int keys) {
    if (rows_.writes_dv(s)) return own_tile(keys, value_stride_[s]);
    return {dv_[s] + offset * dv_stride_[s], dv_stride_[s], !fresh_};
  }
  GradientRows<T> own_tile(int keys, std::int64_t pad) {
    const bool whole = strip_count_ == 1 && strips_[0].begin == 0 && strips_[0].end == keys && !head_.program->raw;
    for (std::int64_t n = 0; n < keys * pad && !whole; ++n) rows_.buffer()[n] = 0;
    return {rows_.buffer(), pad, !whole};
  }

  bool load_queries(std::int64_t first, int count, bool& loaded) {
    scores_.set_visible(first, count);
    const std::int64_t stop = task_.first_key + task_.count;
    if (scores_.first_key() >= stop || scores_.last_key() <= task_.first_key) return false;
    fresh_ = false;
    if (!loaded) load_chunk();
    loaded = true;
    scores_.load_queries();
    if (head_.bf16) {
      bf16_.load_queries(scores_.q_rows16(), task_.grad_out, first, count, scores_.live());
      block_finite_ = finite_ && bf16_.is_block_finite(scores_.q_rows16(), task_.grad_out, first, count);
      if (!block_finite_) load_wide_rows();
    } else {
      block_finite_ = finite_ && finite_rows(scores_.q_rows(), dim_pad_, count, dim_pad_);
    }
    if (!head_.bf16 || !block_finite_ || table_.given()) load_gradients(first, count);
    if (few_ && !block_finite_) {
      few_ = false;
      load_wide_chunk();
    }
    table_.set_gradients(grad_columns_[0]);
    for (int c = 0; c < columns_; ++c) {
      const bool real = c < count;
      // Columns past the last query may score anything: under this maximum it weighs nothing.
      max_[c] = real ? task_.row_max[first + c] : kLargest<T>;
      const T saved = real ? task_.row_sum[first + c] : T(0);
      second_[c] = saved;
      if (threshold_ == Threshold::first_largest) second_[c] = real ? saved : T(-1);
      if (threshold_ == Threshold::exponential) second_[c] = saved == T(0) ? T(0) : T(1) / saved;
      delta_[c] = real && task_.delta ? task_.delta[first + c] : T(0);
      delta_rest_[c] = real && task_.delta_rest ? task_.delta_rest[first + c] : T(0);
      sums_[c] = sizes_[c] = 0;
    }
    for (std::int64_t n = 0; n < columns_ * dim_pad_; ++n) dq_[n] = 0;
    if (dq_columns_)
      for (std::int64_t n = 0; n < head_.dim * columns_; ++n) dq_columns_[n] = 0;
    if (dr_)
      for (std::int64_t n = 0; n < columns_ * scores_.relative_pad(); ++n) dr_[n] = 0;
    return true;
  }

  // What is multiplied carefully, in place of bf16 numbers.
  void load_wide_rows() {
    scores_.fill_q_rows();
    padded_rows(head_.k, head_.dim, keys_, key_stride_);
  }

  void load_gradients(std::int64_t first, int count) {
    for (int s = 0; s < head_.sets; ++s) {
      const std::int64_t pad = value_stride_[s];
      load_rows(task_.grad_out[s], first, count, head_.value_dim[s], grad_rows_[s], pad);
      for (std::int64_t n = count * pad; n < columns_ * pad; ++n) grad_rows_[s][n] = 0;
      if (!head_.bf16) block_finite_ = block_finite_ && finite_rows(grad_rows_[s], pad, count, pad);
      if (!head_.bf16 || table_.given())
        transpose(grad_rows_[s], pad, columns_, head_.value_dim[s], grad_columns_[s], columns_);
    }
  }

  bool run_block(std::int64_t block, bool& loaded) {
    const std::int64_t first = block * kMostColumns<T>;
    const int count = static_cast<int>(head_.queries - first < columns_ ? head_.queries - first : columns_);
    if (!load_queries(first, count, loaded)) return false;
    scores_.begin_block_backward(task_.first_key, task_.count);
    const bool by_lines = takes_lines();
    for (std::int64_t j = 0; j < task_.count; j += kTileKeys) {
      const int keys = static_cast<int>(task_.count - j < kTileKeys ? task_.count - j : kTileKeys);
      rows_.fetch(j, keys);
      if (scores_.visible(task_.first_key + j, keys) == Visible::none) rows_.store_nothing(j, keys);
      else if (by_lines) run_lines(j, keys);
      else run_tile(j, keys);
    }
    scores_.end_block_backward(dr_);
    if (!task_.correct) table_.finish_block(grad_rows_[0], value_stride_[0]);
    return true;
  }

  bool takes_few() const {
    if (!scores_.reads_bf16() || table_.given() || task_.correct || head_.sets != 1) return false;
    return (!task_.want_dk || rows_.writes_dk()) && (!task_.want_dv || rows_.writes_dv(0)) &&
           FewGradients<T>::fits(head_, task_);
  }

  FewGradients<T> few_at(std::int64_t offset) const { return {head_, task_, offset, columns_}; }
  // Plain products under softmax of which nothing is hidden.
  bool takes_lines() const {
    return lines_.fits(head_) && block_finite_ && task_.want_score && !task_.correct &&
           scores_.sees_all(task_.first_key, task_.count);
  }

  void run_lines(std::int64_t offset, int keys) {
    const typename BackwardLines<T>::Queries queries{.count = scores_.count(),
                                                     .rows = scores_.q_rows16(),
                                                     .scale = scores_.bf16_scale(),
                                                     .max = max_,
                                                     .factor = second_,
                                                     .delta = delta_,
                                                     .delta_rest = task_.delta_rest ? delta_rest_ : nullptr,
                                                     .huge = is_huge(),
                                                     .sums = sums_,
                                                     .sizes = sizes_};
    const MatrixRef& grad = task_.grad_out[0];
    const Bf16Rows grad_out{static_cast<const std::uint16_t*>(grad.data) + scores_.first_query() * grad.stride,
                            grad.stride * 2};
    strip_count_ = 1;
    strips_[0] = {0, scores_.live(), 0, keys};
    lines_.weigh(queries, bf16_.key_rows(offset), keys);
    if (task_.want_dv) {
      const GradientRows<T> dv = dv_of_tile(0, offset, keys);
      lines_.value_gradient(queries.count, keys, bf16_.grad_pairs(), dv);
      if (rows_.writes_dv(0)) rows_.store_dv(0, offset, keys);
    }
    lines_.score_gradient(queries, grad_out, bf16_.value_rows(offset), keys);
    if (task_.want_dk) {
      const GradientRows<T> dk = dk_of_tile(offset, keys);
      lines_.key_gradient(queries.count, keys, bf16_.query_pairs(), dk);
      if (rows_.writes_dk()) rows_.store_dk(offset, keys, head_.bf16 ? scores_.bf16_scale() : T(1));
    }
    if (wants_dq()) lines_.query_gradient(queries.count, keys, bf16_.key_pairs(offset), {dq_, dim_pad_, true});
  }

  bool wants_dq() const { return task_.dq || task_.dq_rows.data; }

  // Weights come from a normaliser's own weight().
  bool is_program() const { return threshold_ == Threshold::solved || threshold_ == Threshold::none; }

  void multiply(const ProductArgs<T>& args) const {
    if (block_finite_) product<T>(args);
    else careful_product<T>(args);
  }

  void run_tile(std::int64_t offset, int keys) {
    const std::int64_t first = task_.first_key + offset;
    const bool hard = threshold_ == Threshold::first_largest;
    if (hard) choose(first, keys);
    else weigh(offset, keys);
    if (!task_.correct) table_.add_weights(scores_.first_query(), scores_.count(), tile_, first, keys);
    if (task_.want_dv) value_gradients(offset, keys);
    if (!task_.want_score || hard) return;
    if (task_.correct) {
      for (std::int64_t n = 0; n < static_cast<std::int64_t>(keys) * columns_; ++n) grad_tile_[n] = 0;
    } else {
      if (head_.bf16) bf16_.weight_gradient(keys, scores_.live(), offset, grad_tile_);
      else if (few_) few_at(offset).weight_gradient(grad_rows_[0], scores_.count(), keys, rows_.buffer(), grad_tile_);
      else weight_gradient(offset);
      table_.add_weight_gradients(scores_.first_query(), scores_.count(), first, keys, grad_tile_);
    }
    if (task_.normalizer_grads && head_.normalizer->parameter_gradient)
      for (int n = 0; n < strip_count_; ++n) {
        WeightTile<T> part = weight_tile(strips_[n]);
        part.tile = kept_ + strips_[n].begin * columns_ + strips_[n].column;
        part.grad = grad_tile_ + strips_[n].begin * columns_ + strips_[n].column;
        part.value_grads = task_.normalizer_grads;
        head_.normalizer->parameter_gradient(part);
      }
    for (int n = 0; n < strip_count_; ++n) score_gradient(strips_[n]);
    scores_.tile_backward(grad_tile_, task_.dbias, task_.dbias_stride, task_.dbias_first, dr_, task_.value_grads);
    if (head_.content) content_gradient(offset, keys);
  }

  void choose(std::int64_t first, int keys) {
    find_strips(true, keys);
    for (int j = 0; j < keys; ++j)
      for (int c = 0; c < columns_; ++c) {
        const T chosen = second_[c];
        tile_[j * columns_ + c] = chosen != chosen ? chosen : T(chosen == static_cast<T>(first + j) ? 1 : 0);
      }
  }

  // Scores again, then weights, and slopes where they are not the weights themselves.
  void weigh(std::int64_t offset, int keys) {
    const std::int64_t first = task_.first_key + offset;
    if (task_.dbias && task_.dbias_stride != 0)
      fetch_rows(task_.dbias + scores_.first_query() * task_.dbias_stride + first - task_.dbias_first,
                 task_.dbias_stride, scores_.count(), keys);
    const Bf16Rows rows = few_ ? few_at(offset).key_rows() : bf16_.key_rows(offset);
    scores_.tile(first, keys, key_rows_ + offset * key_stride_, key_stride_, tile_, rows);
    if (!is_program() && is_huge()) clamp_scores(tile_, static_cast<std::int64_t>(keys) * columns_);
    find_strips(head_.bf16 || scores_.is_whole(), keys);
    if (kept_ && task_.normalizer_grads)
      for (std::int64_t n = 0; n < static_cast<std::int64_t>(keys) * columns_; ++n) kept_[n] = tile_[n];
    for (int n = 0; n < strip_count_; ++n) {
      const Strip& strip = strips_[n];
      if (is_program()) head_.normalizer->weights(weight_tile(strip));
      else
        weights_from_scores(tile_ + strip.begin * columns_ + strip.column, strip.end - strip.begin, strip.columns,
                            columns_, max_ + strip.column, second_ + strip.column);
      scores_.clear_outside(tile_, strip);
    }
  }

  WeightTile<T> weight_tile(const Strip& strip) const {
    const std::ptrdiff_t at = strip.begin * columns_ + strip.column;
    return {.tile = tile_ + at,
            .slopes = slope_tile_ + at,
            .keys = strip.end - strip.begin,
            .columns = strip.columns,
            .stride = columns_,
            .row_max = max_ + strip.column,
            .threshold = second_ + strip.column,
            .values = head_.normalizer_values};
  }

  // The parts of the tile that any query sees: at the edge of a mask strips of columns, each with its own rows.
  void find_strips(bool whole, int keys) {
    strip_count_ = 0;
    if (whole) strips_[strip_count_++] = {0, scores_.live(), 0, keys};
    for (int c = 0; c < scores_.live() && !whole; c += kStrip<T>) strips_[strip_count_++] = scores_.strip_at(c);
  }

  int queries_of(const Strip& strip) const {
    const int left = scores_.count() > strip.column ? scores_.count() - strip.column : 0;
    return left < strip.columns ? left : strip.columns;
  }

  // dV += P·dO. Where something is not finite, zeros must stay zeros: the careful product does that.
  void value_gradients(std::int64_t offset, int keys) {
    if (few_) return few_at(offset).value_gradient(tile_, grad_rows_[0], scores_.count(), keys);
    const bool by_bf16 = head_.bf16 && block_finite_;
    if (by_bf16) bf16_.set_weights(tile_, keys, scores_.live());
    for (int s = 0; s < head_.sets; ++s) {
      const GradientRows<T> dv = dv_of_tile(s, offset, keys);
      if (by_bf16) bf16_.value_gradient(s, keys, scores_.live(), dv);
      else multiply_by_keys(tile_, grad_rows_[s], value_stride_[s], dv);
      if (rows_.writes_dv(s)) rows_.store_dv(s, offset, keys);
    }
  }

  // Rows of the tile's keys (+)= tile·rows, rows those of the queries.
  void multiply_by_keys(const T* tile, const T* rows, std::ptrdiff_t stride, const GradientRows<T>& to) const {
    for (int n = 0; n < strip_count_; ++n) {
      const Strip& strip = strips_[n];
      multiply({.m = strip.end - strip.begin,
                .n = stride,
                .k = queries_of(strip),
                .a = tile + strip.begin * columns_ + strip.column,
                .a_row = columns_,
                .a_col = 1,
                .b = rows + strip.column * stride,
                .b_row = stride,
                .c = to.at + strip.begin * to.stride,
                .c_row = to.stride,
                .accumulate = to.add});
    }
  }

  // dP = V·dOᵀ.
  void weight_gradient(std::int64_t offset) {
    for (int s = 0; s < head_.sets; ++s)
      for (int n = 0; n < strip_count_; ++n) {
        const Strip& strip = strips_[n];
        product<T>({.m = strip.end - strip.begin,
                    .n = strip.columns,
                    .k = head_.value_dim[s],
                    .a = values_[s].rows + (offset + strip.begin) * values_[s].stride,
                    .a_row = values_[s].stride,
                    .a_col = 1,
                    .b = grad_columns_[s] + strip.column,
                    .b_row = columns_,
                    .c = grad_tile_ + strip.begin * columns_ + strip.column,
                    .c_row = columns_,
                    .accumulate = s > 0});
      }
  }

  bool is_huge() const {
    bool huge = false;
    for (int c = 0; c < scores_.count(); ++c) huge = huge || max_[c] >= kLargest<T>;
    return huge;
  }

  void score_gradient(const Strip& strip) {
    const T* const slopes = slope_tile_ ? slope_tile_ : tile_;
    score_gradients<T>({.slopes = slopes + strip.begin * columns_,
                        .grads = grad_tile_ + strip.begin * columns_,
                        .keys = strip.end - strip.begin,
                        .stride = columns_,
                        .delta = delta_,
                        .delta_rest = task_.delta_rest ? delta_rest_ : nullptr,
                        .sums = sums_,
                        .sizes = sizes_},
                       strip.column, strip.columns);
    scores_.clear_outside(grad_tile_, strip);
  }

  void content_gradient(std::int64_t offset, int keys) {
    const T* k = key_rows_ + offset * key_stride_;
    if (head_.program->raw) {
      const GradientRows<T> dk = dk_of_tile(offset, keys);
      PairTile<T> pairs = scores_.pair_tile(keys, k, key_stride_);
      pairs.grad = grad_tile_;
      pairs.grad_queries = dq_columns_;
      pairs.grad_keys = dk.at;
      pairs.grad_key_stride = dk.stride;
      pairs.grad_weights = task_.pair_weight_grads;
      scores_.pairs_backward(pairs, grad_tile_);
      if (rows_.writes_dk()) rows_.store_dk(offset, keys, T(1));
      return;
    }
    if (few_) {
      if (task_.want_dk) few_at(offset).key_gradient(grad_tile_, scores_.q_rows(), scores_.count(), keys);
      if (wants_dq()) few_at(offset).query_gradient(grad_tile_, scores_.count(), keys, dq_, rows_.buffer());
      return;
    }
    const bool by_bf16 = head_.bf16 && block_finite_;
    if (task_.want_dk) {
      const GradientRows<T> dk = dk_of_tile(offset, keys);
      if (by_bf16) bf16_.key_gradient(grad_tile_, keys, scores_.live(), dk);
      else multiply_by_keys(grad_tile_, scores_.q_rows(), dim_pad_, dk);
      if (rows_.writes_dk()) rows_.store_dk(offset, keys, head_.bf16 ? scores_.bf16_scale() : T(1));
    }
    if (!wants_dq()) return;
    if (by_bf16) return bf16_.query_gradient(grad_tile_, keys, scores_.live(), offset, {dq_, dim_pad_, true});
    for (int n = 0; n < strip_count_; ++n) {
      const Strip& strip = strips_[n];
      multiply({.m = queries_of(strip),
                .n = dim_pad_,
                .k = strip.end - strip.begin,
                .a = grad_tile_ + strip.begin * columns_ + strip.column,
                .a_row = 1,
                .a_col = columns_,
                .b = k + strip.begin * key_stride_,
                .b_row = key_stride_,
                .c = dq_ + strip.column * dim_pad_,
                .c_row = dim_pad_,
                .accumulate = true});
    }
  }

  void add_query_gradients(std::int64_t block) {
    const std::int64_t first = block * kMostColumns<T>;
    if (dq_columns_) transpose(dq_columns_, columns_, head_.dim, columns_, dq_, dim_pad_);
    const T factor = scores_.folds_scale() ? head_.scale : T(1);
    for (int c = 0; c < scores_.count(); ++c) {
      if (task_.dq_rows.data) {
        T* const row = dq_ + c * dim_pad_;
        for (int d = 0; d < head_.dim; ++d) row[d] *= factor;
        store_row(row, head_.dim, task_.dq_rows, first + c);
      }
      if (task_.dq) {
        T* to = task_.dq + (first + c) * task_.dq_stride;
        for (int d = 0; d < head_.dim; ++d) to[d] += dq_[c * dim_pad_ + d] * factor;
      }
      if (task_.dq_relative && dr_) {
        T* to = task_.dq_relative + (first + c) * task_.dq_relative_stride;
        const T* from = dr_ + c * scores_.relative_pad();
        for (int d = 0; d < head_.relative_dim; ++d) to[d] += from[d];
      }
      if (task_.score_sums) {
        task_.score_sums[first + c] += static_cast<double>(sums_[c]);
        task_.score_sizes[first + c] += static_cast<double>(sizes_[c]);
      }
    }
  }

  const BackwardTask<T>& task_;
  const HeadTask<T>& head_;
  const int columns_;
  const Threshold threshold_;
  Scores<T> scores_;
  OutputTableGrads<T> table_;
  ConvertedRows<T> rows_;
  BackwardBf16<T> bf16_;
  BackwardLines<T> lines_;
  std::int64_t dim_pad_ = 0;
  bool finite_ = true, block_finite_ = true;
  bool few_ = false;    // queries, and rows as they are stored
  bool fresh_ = false;  // nothing was added to dk and dv yet, and the block writes all of them
  Strip strips_[kMostColumns<T> / kStrip<T>];
  int strip_count_ = 0;
  T* keys_ = nullptr;  // [count][dim_pad], where they are copied
  const T* key_rows_ = nullptr;
  std::ptrdiff_t key_stride_ = 0;
  T* dk_ = nullptr;  // [count][dk_stride], where the caller wants it or here
  std::ptrdiff_t dk_stride_ = 0;
  T* dq_ = nullptr;          // [columns][dim_pad]
  T* dq_columns_ = nullptr;  // [dim][columns], for mechanisms with their own pair()
  T* dr_ = nullptr;          // [columns][relative_pad]
  T* tile_ = nullptr;        // weights
  T* grad_tile_ = nullptr;   // their gradients, then the scores'
  T* max_ = nullptr;
  T* second_ = nullptr;      // 1/sum; under argmax the chosen key; else the threshold
  T* slope_tile_ = nullptr;  // slopes of the weights, where they are not the weights
  T* kept_ = nullptr;        // the scores, where a normaliser has parameters
  T* delta_ = nullptr;
  T* delta_rest_ = nullptr;
  T* sums_ = nullptr;  // Σ ∂score of each column, and of their sizes
  T* sizes_ = nullptr;
  Values* values_ = nullptr;  // [sets], as those that follow
  T** dv_ = nullptr;
  T** grad_rows_ = nullptr;
  T** grad_columns_ = nullptr;
  std::ptrdiff_t* value_stride_ = nullptr;  // of rows that are copied, and of grad_rows
  std::ptrdiff_t* dv_stride_ = nullptr;
};

template <class T>
std::size_t backward_workspace_of(const BackwardTask<T>& task) {
  Arena arena(nullptr);
  const BackwardChunk<T> chunk(arena, task);
  return arena.used();
}

template <class T>
void backward_of(const BackwardTask<T>& task) {
  const FlushTiny flush;
  Arena arena(task.workspace);
  if (task.head->bf16) task.head->bf16->begin();
  BackwardChunk<T>(arena, task).run();
  if (task.head->bf16) task.head->bf16->end();
}

template <class T>
std::int64_t backward_keys_of(const HeadTask<T>& head) {
  return chunk_keys(head);
}

}  // namespace

template <class T>
void fill_backward(Kernels<T>& kernels) {
  kernels.backward_rows = kMostColumns<T>;
  kernels.backward_keys = &backward_keys_of<T>;
  kernels.backward_workspace = &backward_workspace_of<T>;
  kernels.backward = &backward_of<T>;
}

template void fill_backward(Kernels<float>&);
template void fill_backward(Kernels<double>&);

}  // namespace rapt::inline v1::RAPT_TARGET
