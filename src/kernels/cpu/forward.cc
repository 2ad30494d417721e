#include <cmath>
#include <optional>

#include "kernels/cpu/entry.h"
#include "kernels/cpu/flush_tiny.h"
#include "kernels/cpu/statistics.h"

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
      // A NaN may come from 0·∞ in the values of a hidden key: such blocks are done again, skipping what has no weight.
      if (!finite()) {
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
    return rows_of(head_.k, first, keys, head_.dim, key_tile_, scores_.dim_pad(), stride);
  }

  static const T* rows_of(const MatrixRef& matrix, std::int64_t first, int rows, std::int64_t dim, T* buffer,
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
      if (keeps_scores(*w)) keep_scores(*w, j, keys);
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

  // The maximum to go on with, after scores of which `top` is the largest.
  static Vec<T> follow(Vec<T> before, Vec<T> top) {
    const Tag<T> tag;
    // One that moved little is not followed: weights stay far from the largest number, and nothing has to be rescaled.
    return hn::IfThenElse(hn::Gt(hn::Sub(top, before), hn::Set(tag, kSlack<T>)), top, before);
  }

  // Few queries: lanes are keys here too; the sum is added up in the order of the wide path.
  void normalize_narrow(int keys) {
    const Tag<T> tag;
    for (int c = 0; c < task_.count; ++c) {
      T* line = few_weights_ + c * kTileKeys;
      for (int j = 0; j < keys; ++j) line[j] = tile_[j * columns_ + c];
      for (int j = keys; j < kTileKeys; ++j) line[j] = -kInfinity<T>;
      const Vec<T> before = hn::Set(tag, max_[c]);
      Vec<T> top = before;
      for (int j = 0; j < kTileKeys; j += kLanes<T>) top = hn::Max(hn::LoadU(tag, line + j), top);
      top = hn::MaxOfLanes(tag, top);
      if (hn::GetLane(top) > kLargest<T>) {
        clamp_scores(line, kTileKeys);
        top = hn::Set(tag, kLargest<T>);
      }
      top = follow(before, top);
      const Vec<T> shift = shift_of<T>(top);
      max_[c] = hn::GetLane(top);
      correction_[c] = hn::GetLane(exp_weight(hn::Sub(before, shift)));
      for (int j = 0; j < kTileKeys; j += kLanes<T>)
        hn::StoreU(exp_weight(hn::Sub(hn::LoadU(tag, line + j), shift)), tag, line + j);
      T sum = 0;
      for (int j = 0; j < keys; ++j) sum += line[j];
      sum_[c] = hn::GetLane(hn::MulAdd(hn::Set(tag, sum_[c]), hn::Set(tag, correction_[c]), hn::Set(tag, sum)));
      if (!hn::AllTrue(tag, hn::Eq(before, top))) rescale_narrow(c);
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
      top = follow(before, top);
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

  // One query: its output is a sum of rows, lanes are their numbers. A tile's sum is added as a whole, as in the wide
  // product.
  void add_value_rows(T* output, const T* rows, std::ptrdiff_t stride, std::int64_t dim, int keys, bool careful) {
    constexpr int kVectors = 4;
    const Tag<T> tag;
    for (int c = 0; c < task_.count; ++c) {
      T* to = output + c * padded<T>(dim);
      const T* weights = few_weights_ ? few_weights_ + c * kTileKeys : tile_ + c;
      const std::ptrdiff_t step = few_weights_ ? 1 : columns_;
      std::int64_t d = 0;
      for (; d + kVectors * kLanes<T> <= dim; d += kVectors * kLanes<T>)
        add_value_strip<kVectors>(to + d, rows + d, stride, weights, step, keys, careful);
      for (; d + kLanes<T> <= dim; d += kLanes<T>)
        add_value_strip<1>(to + d, rows + d, stride, weights, step, keys, careful);
      if (d == dim) continue;
      // The rest of the rows in a buffer: past their ends nothing may be read.
      Vec<T> sum = hn::Zero(tag);
      for (int n = 0; n < kLanes<T>; ++n) line_[n] = 0;
      for (int j = 0; j < keys; ++j) {
        const T w = weights[j * step];
        if (careful && w == T(0)) continue;
        for (std::int64_t n = d; n < dim; ++n) line_[n - d] = rows[j * stride + n];
        sum = hn::MulAdd(hn::LoadU(tag, line_), hn::Set(tag, w), sum);
      }
      hn::StoreU(hn::Add(sum, hn::LoadU(tag, to + d)), tag, to + d);
    }
  }

  template <int kVectors>
  void add_value_strip(T* to, const T* rows, std::ptrdiff_t stride, const T* weights, std::ptrdiff_t step, int keys,
                       bool careful) const {
    const Tag<T> tag;
    Vec<T> sum[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(tag);
    for (int j = 0; j < keys; ++j) {
      const T w = weights[j * step];
      if (careful && w == T(0)) continue;
      const T* row = rows + j * stride;
      for (int v = 0; v < kVectors * kLanes<T> * static_cast<int>(sizeof(T)); v += 64)
        __builtin_prefetch(row + kTileKeys * stride + v / static_cast<int>(sizeof(T)), 0, 2);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sum[v] = hn::MulAdd(hn::LoadU(tag, row + v * kLanes<T>), hn::Set(tag, w), sum[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      T* place = to + v * kLanes<T>;
      hn::StoreU(hn::Add(sum[v], hn::LoadU(tag, place)), tag, place);
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
    const T* rows = rows_of(head_.v[set], first, keys, dim, value_tile_, padded<T>(dim), stride);
    T* output = outputs_[set];
    if (narrow_) {
      add_value_rows(output, rows, stride, dim, keys, careful);
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

  // The rows of the block that are asked for, as columns [begin, end).
  Strip wanted_columns(const WeightsTask& wanted) const {
    const std::int64_t begin = wanted.row_begin - task_.first_query, end = wanted.row_end - task_.first_query;
    return {.column = 0,
            .columns = columns_,
            .begin = static_cast<int>(begin < 0 ? 0 : begin),
            .end = static_cast<int>(end < task_.count ? end : task_.count)};
  }

  T* wanted_row(const WeightsTask& wanted, int column) const {
    return static_cast<T*>(wanted.out.data) + (task_.first_query + column - wanted.row_begin) * wanted.out.stride;
  }

  void keep_scores(const WeightsTask& wanted, std::int64_t first, int keys) {
    const Strip rows = wanted_columns(wanted);
    if (rows.begin >= rows.end) return;
    for (int c = rows.begin; c < rows.end; ++c)
      for (std::int64_t j = kept_until_; j < first; ++j) wanted_row(wanted, c)[j] = -kInfinity<T>;
    transpose(tile_ + rows.begin, columns_, keys, rows.end - rows.begin, wanted_row(wanted, rows.begin) + first,
              wanted.out.stride);
  }

  void finish_kept(const WeightsTask& wanted) {
    const Strip rows = wanted_columns(wanted);
    for (int c = rows.begin; c < rows.end; ++c) {
      T* row = wanted_row(wanted, c);
      const T inverse = sum_[c] == T(0) ? T(0) : T(1) / sum_[c];
      finish_row(row, kept_until_, max_[c], inverse);
      for (std::int64_t j = kept_until_; j < head_.keys; ++j) row[j] = 0;
    }
  }

  // Scores of one row become weights.
  void finish_row(T* row, std::int64_t keys, T row_max, T inverse) {
    const Tag<T> tag;
    const Vec<T> shift = shift_of<T>(hn::Set(tag, row_max));
    const auto weights = [&](Vec<T> s) {
      const Vec<T> top = hn::Set(tag, kLargest<T>);
      const Vec<T> e = exp_weight(hn::Sub(hn::IfThenElse(hn::Gt(s, top), top, s), shift));
      return hn::IfThenZeroElse(hn::Eq(e, hn::Zero(tag)), hn::Mul(e, hn::Set(tag, inverse)));
    };
    std::int64_t j = 0;
    for (; j + kLanes<T> <= keys; j += kLanes<T>) hn::StoreU(weights(hn::LoadU(tag, row + j)), tag, row + j);
    if (j == keys) return;
    for (int n = 0; n < kLanes<T>; ++n) line_[n] = j + n < keys ? row[j + n] : T(0);
    hn::StoreU(weights(hn::LoadU(tag, line_)), tag, line_);
    for (; j < keys; ++j) row[j] = line_[j % kLanes<T>];
  }

  // A second pass over the scores of the rows asked for, now that their sums are known.
  void write_weights(const WeightsTask& wanted) {
    if (keeps_scores(wanted)) {
      finish_kept(wanted);
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
