#include <cmath>
#include <optional>

#include "backends/cpu/simd/entry.h"
#include "backends/cpu/simd/flush_tiny.h"
#include "backends/cpu/simd/requested_weights.h"
#include "backends/cpu/simd/statistics.h"

// Blocks of queries against all keys they see: scores, running softmax and output, a tile at a time.
namespace rapt::RAPT_TARGET {
namespace {

template <class T>
class ForwardBlock {
 public:
  ForwardBlock(Arena& arena, const ForwardTask<T>& task)
      : task_(task),
        head_(*task.head),
        columns_(columns_for<T>(task.count)),
        narrow_(head_.queries <= kNarrow),
        scores_(arena, head_, columns_, 0),
        statistics_(arena, task_.statistics, columns_) {
    tile_ = arena.take<T>(kTileKeys * columns_);
    if (task.statistics.any()) kept_ = arena.take<T>(kTileKeys * columns_);
    else if (narrow_) few_weights_ = arena.take<T>(kTileKeys * kNarrow);
    for (T** row : {&max_, &sum_, &old_max_, &old_sum_, &correction_}) *row = arena.take<T>(columns_);
    chosen_ = arena.take<std::int64_t>(columns_);
    if (task.weights) turned_ = arena.take<T>(kTileKeys * columns_);
    outputs_ = arena.take<T*>(head_.sets);
    std::int64_t widest = kTileKeys;
    for (int s = 0; s < head_.sets; ++s) {
      T* output = arena.take<T>(output_size(s));
      if (outputs_) outputs_[s] = output;
      widest = head_.value_dim[s] > widest ? head_.value_dim[s] : widest;
    }
    line_ = arena.take<T>(widest);
    if (head_.pairs) {
      key_tile16_ = arena.take<std::uint16_t>(kTileKeys * scores_.pair_dim());
      weight_pairs_ = arena.take<std::uint32_t>(kTileKeys / 2 * columns_);
    }
    key_tile_ = arena.take<T>(kTileKeys * scores_.dim_pad());
    value_tile_ = arena.take<T>(kTileKeys * padded<T>(widest));
  }

  void begin() {
    scores_.set_visible(task_.first_query, static_cast<int>(task_.count));
    scores_.load_queries();
    restart();
  }

  // The tiles that begin before this key and were not done yet.
  void advance(std::int64_t before) {
    for_each_tile(before, [&](std::int64_t j, int keys) {
      if (head_.normalizer == Normalizer::argmax) choose(j, keys);
      else attend(j, keys, false);
    });
  }

  void finish() {
    if (head_.normalizer == Normalizer::argmax) {
      for (int c = 0; c < columns_; ++c) sum_[c] = max_[c] != max_[c] ? max_[c] : static_cast<T>(chosen_[c]);
      write_chosen();
    } else {
      // A NaN may come from 0·∞ in the values of a hidden key, an infinity from weights above 1: such blocks are done again,
      // skipping what has no weight, with every maximum followed.
      if (!finite()) {
        slack_ = 0;
        restart();
        for_each_tile(task_.key_end, [&](std::int64_t j, int keys) { attend(j, keys, true); });
      }
      write_averages();
    }
    write_rows();
    statistics_.finish(task_.first_query, static_cast<int>(task_.count), max_, sum_,
                       head_.normalizer == Normalizer::argmax);
    for (const WeightsTask* w = task_.weights; w; w = w->next) write_weights(*w);
  }

 private:
  // The rows of k as they lie, or converted.
  const T* key_rows(std::int64_t first, int keys, std::ptrdiff_t& stride) {
    if (!head_.content) return key_tile_;
    return rows_at(head_.k, first, keys, head_.dim, key_tile_, scores_.dim_pad(), stride);
  }

  static const T* rows_at(const MatrixRef& matrix, std::int64_t first, int rows, std::int64_t dim, T* buffer,
                          std::int64_t buffer_stride, std::ptrdiff_t& stride) {
    if (matrix.dtype == dtype_of<T>()) {
      stride = matrix.stride;
      return static_cast<const T*>(matrix.data) + first * matrix.stride;
    }
    stride = buffer_stride;
    load_rows(matrix, first, rows, dim, buffer, buffer_stride);
    return buffer;
  }

  void score(std::int64_t first, int keys) {
    if (head_.pairs) {
      scores_.tile(first, keys, nullptr, 0, tile_, pair_rows(first, keys));
      return;
    }
    std::ptrdiff_t stride = 0;
    const T* rows = key_rows(first, keys, stride);
    scores_.tile(first, keys, rows, stride, tile_);
  }

  // The rows of bf16 keys as they lie, or copied to where they are padded.
  PairRows pair_rows(std::int64_t first, int keys) {
    const std::uint16_t* rows = static_cast<const std::uint16_t*>(head_.k.data) + first * head_.k.stride;
    const std::int64_t dim = scores_.pair_dim();
    if (keys == kTileKeys && dim == head_.dim) return {rows, head_.k.stride * 2};
    copy_rows(rows, head_.k.stride, keys, head_.dim, key_tile16_, dim);
    for (std::int64_t n = keys * dim; n < round_up(keys, 16) * dim; ++n) key_tile16_[n] = 0;
    return {key_tile16_, dim * 2};
  }

  void first_tile() {
    next_ = task_.key_begin > scores_.first_key() ? task_.key_begin : scores_.first_key();
    if (head_.pairs) next_ -= next_ % kTileKeys;  // values lie in whole tiles
  }

  template <class F>
  void for_each_tile(std::int64_t before, F&& f) {
    const std::int64_t end = task_.key_end < scores_.last_key() ? task_.key_end : scores_.last_key();
    for (; next_ < end && next_ < before; next_ += kTileKeys) {
      const int keys = static_cast<int>(end - next_ < kTileKeys ? end - next_ : kTileKeys);
      if (scores_.visible(next_, keys) == Visible::none) continue;
      score(next_, keys);
      f(next_, keys);
    }
  }

  void restart() {
    first_tile();
    kept_until_ = 0;
    const bool hard = head_.normalizer == Normalizer::argmax;
    for (int c = 0; c < columns_; ++c) {
      max_[c] = -kInfinity<T>;
      sum_[c] = 0;
      chosen_[c] = -1;
      if (!hard) continue;
      old_max_[c] = -kInfinity<T>;
      old_sum_[c] = 0;
      correction_[c] = 1;
    }
    statistics_.reset();
    for (int s = 0; s < head_.sets && !hard; ++s)
      for (std::int64_t n = 0; n < output_size(s); ++n) outputs_[s][n] = 0;
  }

  void attend(std::int64_t j, int keys, bool careful) {
    for (const WeightsTask* w = task_.weights; w; w = w->next)
      if (keeps_scores(*w)) keep_scores(rows_of(*w), tile_, columns_, kept_until_, j, keys);
    kept_until_ = j + keys;
    normalize(j, keys);
    if constexpr (std::is_same_v<T, float>)
      if (head_.pairs && !careful) head_.pairs->round_pairs(tile_, keys, columns_, columns_, weight_pairs_);
    for (int s = 0; s < head_.sets && task_.out; ++s) add_values(s, j, keys, careful);
  }

  bool finite() const {
    bool finite = true;
    for (int s = 0; s < head_.sets; ++s) finite = finite && all_finite(outputs_[s], output_size(s));
    return finite;
  }

  void normalize_narrow(int keys) {
    for (int c = 0; c < task_.count; ++c) {
      T* line = few_weights_ + c * kTileKeys;
      for (int j = 0; j < kTileKeys; ++j) line[j] = j < keys ? tile_[j * columns_ + c] : -kInfinity<T>;
      const T before = max_[c];
      correction_[c] = few_weights(line, keys, slack_, max_[c], sum_[c]);
      if (max_[c] != before) rescale_narrow(c);
    }
  }

  void rescale_narrow(int c) {
    for (int s = 0; s < head_.sets; ++s)
      for (std::int64_t d = 0; d < padded<T>(head_.value_dim[s]); ++d)
        outputs_[s][c * padded<T>(head_.value_dim[s]) + d] *= correction_[c];
  }

  void normalize(std::int64_t first, int keys) {
    if (few_weights_) {
      normalize_narrow(keys);
      return;
    }
    const Tag<T> tag;
    if (kept_)
      for (int c = 0; c < columns_; ++c) {
        old_max_[c] = max_[c];
        old_sum_[c] = sum_[c];
      }
    bool moved = false;
    Strip strip = scores_.strip_at(0);
    for (int c = 0; c < columns_; c += kLanes<T>) {
      if (c == strip.column + strip.columns) strip = scores_.strip_at(c);
      const int from = kept_ ? 0 : strip.begin;
      const int to = kept_ ? keys : strip.end;
      const Vec<T> before = hn::LoadU(tag, max_ + c);
      Vec<T> top = before;
      for (int j = from; j < to; ++j) top = hn::Max(hn::LoadU(tag, tile_ + j * columns_ + c), top);
      if (!hn::AllFalse(tag, hn::Gt(top, hn::Set(tag, kLargest<T>)))) {
        clamp_scores(tile_, static_cast<std::int64_t>(keys) * columns_);
        top = hn::Min(top, hn::Set(tag, kLargest<T>));
      }
      top = follow<T>(before, top, slack_);
      const Vec<T> shift = shift_of<T>(top);
      const Vec<T> correction = exp_weight(hn::Sub(before, shift));
      if (!hn::AllTrue(tag, hn::Eq(before, top))) moved = true;
      hn::StoreU(top, tag, max_ + c);
      hn::StoreU(correction, tag, correction_ + c);
      if (kept_)
        for (int j = 0; j < keys; ++j)
          hn::StoreU(hn::LoadU(tag, tile_ + j * columns_ + c), tag, kept_ + j * columns_ + c);
      Vec<T> sum = hn::Zero(tag);  // of this tile alone: long rows then lose fewer digits
      T* s = tile_ + from * columns_ + c;
      for (int j = from; j < to; ++j, s += columns_) {
        const Vec<T> w = exp_weight(hn::Sub(hn::LoadU(tag, s), shift));
        sum = hn::Add(sum, w);
        hn::StoreU(w, tag, s);
      }
      hn::StoreU(hn::MulAdd(hn::LoadU(tag, sum_ + c), correction, sum), tag, sum_ + c);
    }
    if (!kept_)
      for (int c = 0; c < columns_; c += kStrip<T>) scores_.clear_outside(tile_, scores_.strip_at(c));
    if (moved) rescale();
    statistics_.add(first, keys, kept_, tile_, old_max_, max_, old_sum_, correction_);
  }

  // Outputs lie transposed, [value_dim][columns]; those of a narrow block as rows.
  std::int64_t output_size(int set) const {
    if (narrow_) return kNarrow * padded<T>(head_.value_dim[set]);
    return (head_.pairs ? round_up(head_.value_dim[set], 16) : head_.value_dim[set]) * columns_;
  }

  void rescale() {
    if (narrow_) {
      for (int c = 0; c < task_.count; ++c) rescale_narrow(c);
      return;
    }
    const Tag<T> tag;
    for (int s = 0; s < head_.sets; ++s) {
      for (std::int64_t d = 0; d < head_.value_dim[s]; ++d)
        for (int c = 0; c < columns_; c += kLanes<T>) {
          T* o = outputs_[s] + d * columns_ + c;
          hn::StoreU(hn::Mul(hn::LoadU(tag, o), hn::LoadU(tag, correction_ + c)), tag, o);
        }
    }
  }

  void add_values(int set, std::int64_t first, int keys, bool careful) {
    std::ptrdiff_t stride = 0;
    const std::int64_t dim = head_.value_dim[set];
    if constexpr (std::is_same_v<T, float>)
      if (head_.pairs && !careful) {
        head_.pairs->product({.m = round_up(dim, 16),
                              .n = columns_,
                              .k = kTileKeys / 2,
                              .a = head_.turned_v[set] + first * round_up(dim, 16),
                              .a_row = kTileKeys * 2,
                              .b = weight_pairs_,
                              .b_row = columns_,
                              .c = outputs_[set],
                              .c_row = columns_,
                              .accumulate = true});
        return;
      }
    const T* rows = rows_at(head_.v[set], first, keys, dim, value_tile_, padded<T>(dim), stride);
    T* output = outputs_[set];
    if (narrow_) {
      for (int c = 0; c < task_.count; ++c)
        few_values(output + c * padded<T>(dim), rows, stride, dim,
                   few_weights_ ? few_weights_ + c * kTileKeys : tile_ + c, few_weights_ ? 1 : columns_, keys, careful,
                   line_);
      return;
    }
    if (careful) {
      for (int j = 0; j < keys; ++j)
        for (int c = 0; c < columns_; ++c) {
          const T w = tile_[static_cast<std::ptrdiff_t>(j) * columns_ + c];
          if (w == T(0)) continue;
          for (std::int64_t d = 0; d < dim; ++d) output[d * columns_ + c] += w * rows[j * stride + d];
        }
      return;
    }
    for (int c = 0; c < columns_; c += kStrip<T>) {
      const Strip strip = scores_.strip_at(c);
      if (strip.begin == strip.end) continue;
      product<T>({.m = dim,
                  .n = strip.columns,
                  .k = strip.end - strip.begin,
                  .a = rows + strip.begin * stride,
                  .a_row = 1,
                  .a_col = stride,
                  .b = tile_ + strip.begin * columns_ + c,
                  .b_row = columns_,
                  .c = output + c,
                  .c_row = columns_,
                  .accumulate = true});
    }
  }

  void write_averages() {
    if (!task_.out) return;
    const Tag<T> tag;
    for (int c = 0; c < columns_; ++c) correction_[c] = sum_[c] == T(0) ? T(0) : T(1) / sum_[c];
    for (int s = 0; s < head_.sets; ++s) {
      const std::int64_t dim = head_.value_dim[s];
      if (narrow_) {
        for (int c = 0; c < task_.count; ++c) {
          for (std::int64_t d = 0; d < dim; ++d) line_[d] = outputs_[s][c * padded<T>(dim) + d] * correction_[c];
          store_row(line_, dim, task_.out[s], task_.first_query + c);
        }
        continue;
      }
      for (std::int64_t d = 0; d < dim; ++d)
        for (int c = 0; c < columns_; c += kLanes<T>) {
          T* o = outputs_[s] + d * columns_ + c;
          hn::StoreU(hn::Mul(hn::LoadU(tag, o), hn::LoadU(tag, correction_ + c)), tag, o);
        }
      if (task_.out[s].dtype == dtype_of<T>()) {
        T* to = static_cast<T*>(task_.out[s].data) + task_.first_query * task_.out[s].stride;
        transpose(outputs_[s], columns_, dim, task_.count, to, task_.out[s].stride);
        continue;
      }
      for (int c = 0; c < task_.count; ++c) {
        for (std::int64_t d = 0; d < dim; ++d) line_[d] = outputs_[s][d * columns_ + c];
        store_row(line_, dim, task_.out[s], task_.first_query + c);
      }
    }
  }

  // Hard attention: the first largest score, without an exponential. In the end sum is the chosen key, −1 for none, NaN
  // for a NaN.
  void choose(std::int64_t first, int keys) {
    const Tag<T> tag;
    for (int c = 0; c < columns_; c += kLanes<T>) {
      Vec<T> best = hn::LoadU(tag, max_ + c);
      Vec<T> place = hn::Set(tag, T(-1));
      for (int j = 0; j < keys; ++j) {
        const Vec<T> s = hn::LoadU(tag, tile_ + j * columns_ + c);
        // A NaN is taken and then kept: no number is larger than it.
        const auto better = hn::And(hn::Not(hn::Le(s, best)), hn::Eq(best, best));
        best = hn::IfThenElse(better, s, best);
        place = hn::IfThenElse(better, hn::Set(tag, static_cast<T>(j)), place);
      }
      hn::StoreU(best, tag, max_ + c);
      hn::StoreU(place, tag, correction_ + c);
    }
    for (int c = 0; c < columns_; ++c)
      if (correction_[c] >= T(0)) chosen_[c] = first + static_cast<std::int64_t>(correction_[c]);
    if (kept_) {
      for (int c = 0; c < columns_; ++c) correction_[c] = 1;
      for (std::int64_t n = 0; n < static_cast<std::int64_t>(keys) * columns_; ++n) kept_[n] = 0;
      statistics_.add(first, keys, tile_, kept_, max_, max_, old_sum_, correction_);
    }
  }

  void write_chosen() {
    if (!task_.out) return;
    for (int s = 0; s < head_.sets; ++s)
      for (int c = 0; c < task_.count; ++c) {
        const std::int64_t dim = head_.value_dim[s];
        if (chosen_[c] >= 0) load_row(head_.v[s], chosen_[c], dim, line_);
        for (std::int64_t d = 0; d < dim; ++d)
          line_[d] = sum_[c] != sum_[c] ? sum_[c] : (chosen_[c] < 0 ? T(0) : line_[d]);
        store_row(line_, dim, task_.out[s], task_.first_query + c);
      }
  }

  void write_rows() {
    const bool hard = head_.normalizer == Normalizer::argmax;
    for (int c = 0; c < task_.count; ++c) {
      const std::int64_t i = task_.first_query + c;
      if (task_.row_max) {
        task_.row_max[i] = max_[c];
        task_.row_sum[i] = sum_[c];
      }
      if (task_.lse.data) {
        line_[0] = hard ? max_[c] : (sum_[c] == T(0) ? -kInfinity<T> : max_[c] + std::log(sum_[c]));
        store_row(line_, 1, task_.lse, i);
      }
    }
    // From here on a row's sum only says whether it has any weight.
    if (hard)
      for (int c = 0; c < columns_; ++c) sum_[c] = chosen_[c] < 0 ? T(0) : T(1);
  }

  // Weights of the compute type: their place holds the scores until the sums are known.
  bool keeps_scores(const WeightsTask& wanted) const {
    return head_.normalizer == Normalizer::softmax && wanted.out.dtype == dtype_of<T>();
  }

  WeightRows<T> rows_of(const WeightsTask& wanted) const {
    return WeightRows<T>(wanted, task_.first_query, task_.count);
  }

  // Now that the sums are known. Where the scores were not kept, in a second pass over them.
  void write_weights(const WeightsTask& wanted) {
    if (keeps_scores(wanted)) {
      const WeightRows<T> rows = rows_of(wanted);
      for (int c = rows.begin; c < rows.end; ++c)
        finish_scores(rows.at(c), kept_until_, head_.keys, max_[c], sum_[c] == T(0) ? T(0) : T(1) / sum_[c]);
      return;
    }
    const std::int64_t begin = wanted.row_begin > task_.first_query ? wanted.row_begin : task_.first_query;
    const std::int64_t stop = task_.first_query + task_.count;
    const std::int64_t end = wanted.row_end < stop ? wanted.row_end : stop;
    if (begin >= end) return;
    for (int n = 0; n < kTileKeys; ++n) line_[n] = 0;
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < head_.keys; j += kTileKeys) write_strip(wanted, line_, i, j, head_.keys - j);
    for (int c = 0; c < columns_; ++c) correction_[c] = sum_[c] == T(0) ? T(0) : T(1) / sum_[c];
    const bool hard = head_.normalizer == Normalizer::argmax;
    first_tile();
    for_each_tile(task_.key_end, [&](std::int64_t first, int keys) {
      if (!hard) {
        clamp_scores(tile_, static_cast<std::int64_t>(keys) * columns_);
        weights_from_scores(tile_, keys, columns_, columns_, max_, correction_);
      }
      if (!hard) transpose(tile_, columns_, keys, columns_, turned_, kTileKeys);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t c = i - task_.first_query;
        for (int j = 0; hard && j < keys; ++j) turned_[c * kTileKeys + j] = T(chosen_[c] == first + j ? 1 : 0);
        write_strip(wanted, turned_ + c * kTileKeys, i, first, keys);
      }
    });
  }

  void write_strip(const WeightsTask& wanted, const T* from, std::int64_t row, std::int64_t first, std::int64_t keys) {
    MatrixRef to = wanted.out;
    to.data = static_cast<char*>(to.data) + first * static_cast<std::int64_t>(size_of(to.dtype));
    store_row(from, keys < kTileKeys ? keys : kTileKeys, to, row - wanted.row_begin);
  }

  const ForwardTask<T> task_;
  const HeadTask<T>& head_;
  const int columns_;
  const bool narrow_;
  T slack_ = kSlack<T>;
  std::int64_t next_ = 0;        // the key that the next tile begins with
  std::int64_t kept_until_ = 0;  // scores of earlier keys lie where weights are wanted
  Scores<T> scores_;
  RowStatistics<T> statistics_;
  T* tile_ = nullptr;         // [kTileKeys][columns]: scores, then weights
  T* kept_ = nullptr;         // the scores, where statistics want both
  T* few_weights_ = nullptr;  // [kNarrow][kTileKeys]: weights of few queries, without statistics
  T* max_ = nullptr;
  T* sum_ = nullptr;
  T* old_max_ = nullptr;
  T* old_sum_ = nullptr;
  T* correction_ = nullptr;
  std::int64_t* chosen_ = nullptr;
  T** outputs_ = nullptr;  // [sets]: [value_dim][columns], not yet divided by the sum
  T* line_ = nullptr;
  T* turned_ = nullptr;  // [columns][kTileKeys]: weights as rows, where they are asked for
  T* key_tile_ = nullptr;
  std::uint16_t* key_tile16_ = nullptr;    // [kTileKeys][pair_dim]
  std::uint32_t* weight_pairs_ = nullptr;  // [kTileKeys / 2][columns]
  T* value_tile_ = nullptr;
};

template <class T>
void row_products(const MatrixRef& a, const MatrixRef& b, std::int64_t first, std::int64_t rows, std::int64_t dim,
                  T* buffer, T* sums) {
  const Tag<T> tag;
  const std::int64_t pad = padded<T>(dim);
  for (std::int64_t r = 0; r < rows; ++r) {
    load_rows(a, first + r, 1, dim, buffer, pad);
    load_rows(b, first + r, 1, dim, buffer + pad, pad);
    Vec<T> sum = hn::Zero(tag);
    for (std::int64_t d = 0; d < pad; d += kLanes<T>)
      sum = hn::MulAdd(hn::LoadU(tag, buffer + d), hn::LoadU(tag, buffer + pad + d), sum);
    sums[r] += hn::GetLane(hn::SumOfLanes(tag, sum));
  }
}

// The blocks of one task. They go through the keys together, a panel at a time: a panel's keys and values stay in the
// second-level cache until all blocks have used them.
template <class T>
class ForwardBlocks {
 public:
  ForwardBlocks(Arena& arena, const ForwardTask<T>& task) {
    std::int64_t width = task.head->dim;
    for (int s = 0; s < task.head->sets; ++s) width += task.head->value_dim[s];
    const std::int64_t fit = (std::int64_t{256} << 10) / (width * static_cast<std::int64_t>(sizeof(T)));
    panel_ = fit < kTileKeys ? kTileKeys : fit / kTileKeys * kTileKeys;
    last_key_ = task.key_end < task.head->keys ? task.key_end : task.head->keys;
    first_key_ = task.key_begin;
    for (std::int64_t done = 0; done < task.count; done += kMostColumns<T>) {
      ForwardTask<T> part = task;
      part.first_query += done;
      part.count = task.count - done < kMostColumns<T> ? task.count - done : kMostColumns<T>;
      blocks_[count_++].emplace(arena, part);
    }
  }

  void run() {
    for (int n = 0; n < count_; ++n) blocks_[n]->begin();
    for (std::int64_t end = first_key_ + panel_; end - panel_ < last_key_; end += panel_)
      for (int n = 0; n < count_; ++n) blocks_[n]->advance(end < last_key_ ? end : last_key_);
    for (int n = 0; n < count_; ++n) blocks_[n]->finish();
  }

 private:
  int count_ = 0;
  std::int64_t panel_ = 0, first_key_ = 0, last_key_ = 0;
  std::optional<ForwardBlock<T>> blocks_[kForwardBlocks];
};

template <class T>
std::size_t forward_workspace_of(const ForwardTask<T>& task) {
  Arena arena(nullptr);
  const ForwardBlocks<T> blocks(arena, task);
  return arena.used();
}

template <class T>
void forward_of(const ForwardTask<T>& task) {
  const FlushTiny flush;
  Arena arena(task.workspace);
  if (task.head->pairs) task.head->pairs->begin();
  ForwardBlocks<T>(arena, task).run();
  if (task.head->pairs) task.head->pairs->end();
}

}  // namespace

template <class T>
void fill_forward(Kernels<T>& kernels) {
  kernels.pad = kLanes<T>;
  kernels.forward_rows = kMostColumns<T>;
  kernels.product = &product<T>;
  kernels.load_rows = &load_rows<T>;
  kernels.store_row = &store_row<T>;
  kernels.row_products = &row_products<T>;
  kernels.forward_workspace = &forward_workspace_of<T>;
  kernels.forward = &forward_of<T>;
}

template void fill_forward(Kernels<float>&);
template void fill_forward(Kernels<double>&);

}  // namespace rapt::RAPT_TARGET
