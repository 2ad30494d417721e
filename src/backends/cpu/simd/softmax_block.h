#pragma once

#include <cmath>
#include <optional>

#include "backends/cpu/simd/key_tiles.h"
#include "backends/cpu/simd/requested_weights.h"
#include "backends/cpu/simd/statistics.h"
#include "backends/cpu/simd/value_sums.h"

// Softmax over a block of queries: a running maximum and sum, the output rescaled when the maximum moves far.
namespace rapt::inline v1::RAPT_TARGET {

// The running softmax of a block's rows over one part of the keys.
template <class T>
struct SoftmaxRows {
  SoftmaxRows(Arena& arena, const ForwardTask<T>& task, int columns)
      : max(arena.take<T>(columns)), sum(arena.take<T>(columns)), values(arena, task, columns) {}

  void clear(int columns) {
    for (int c = 0; c < columns; ++c) {
      max[c] = -kInfinity<T>;
      sum[c] = 0;
    }
    values.clear();
  }

  void swap(SoftmaxRows& other) {
    exchange(max, other.max);
    exchange(sum, other.sum);
    values.swap(other.values);
  }

  T* max;
  T* sum;
  ValueSums<T> values;
};

// What both sides of a merge are multiplied by, under their common maximum, which is written over total_max.
template <class T>
RAPT_FN void merge_factors(Vec<T> part_max, T* total_max, T* own, T* others) {
  const Tag<T> tag;
  const Vec<T> before = hn::LoadU(tag, total_max);
  const Vec<T> top = hn::Max(before, part_max);
  const Vec<T> shift = shift_of<T>(top);
  hn::StoreU(exp_weight(hn::Sub(before, shift)), tag, own);
  hn::StoreU(exp_weight(hn::Sub(part_max, shift)), tag, others);
  hn::StoreU(top, tag, total_max);
}

template <class T>
class SoftmaxBlock {
 public:
  SoftmaxBlock(Arena& arena, const ForwardTask<T>& task)
      : task_(task),
        head_(*task.head),
        columns_(columns_for<T>(task.count)),
        tiles_(arena, task_, columns_),
        statistics_(arena, task_.statistics, columns_),
        part_(arena, task_, columns_) {
    tile_ = tiles_.tile();
    if (task.statistics.any()) kept_ = arena.take<T>(kTileKeys * columns_);
    else if (part_.values.narrow()) few_weights_ = arena.take<T>(kTileKeys * kNarrow);
    for (T** row : {&old_max_, &old_sum_, &correction_, &others_, &true_max_, &slack_}) *row = arena.take<T>(columns_);
    if (task.weights) line_ = arena.take<T>(kTileKeys * columns_);
    // Statistics follow one running maximum through all keys.
    if (!kept_ && !task.is_part && head_.keys > kKeyPart) total_.emplace(arena, task_, columns_);
  }

  void begin() {
    tiles_.begin(task_.first_query, static_cast<int>(task_.count));
    restart();
  }

  // The tiles that begin before this key and were not done yet.
  void advance(std::int64_t before) {
    tiles_.advance(before, [&](std::int64_t j, int keys) {
      if (total_ && j / kKeyPart != part_index_) begin_part(j, keys);
      add_tile(j, keys, false);
    });
  }

  void finish() {
    settle_part();
    if (merged_) merge_part();

    if (head_.sink) add_sink();
    write_rows();
    statistics_.finish(task_.first_query, static_cast<int>(task_.count), rows().max, rows().sum,
                       head_.sink ? old_sum_ : rows().sum, false);
    for (const WeightsTask* w = task_.weights; w; w = w->next) write_weights(*w);
    if (!task_.out) return;
    for (int c = 0; c < columns_; ++c)
      correction_[c] = task_.is_part ? T(1) : (rows().sum[c] == T(0) ? T(0) : T(1) / rows().sum[c]);
    rows().values.store(task_.out, correction_);
  }

 private:
  SoftmaxRows<T>& rows() { return merged_ ? *total_ : part_; }

  void restart() {
    kept_until_ = 0;
    part_index_ = -1;
    part_begin_ = tiles_.next();
    part_kept_until_ = 0;
    merged_ = false;
    part_.clear(columns_);
    for (int c = 0; c < columns_; ++c) {
      true_max_[c] = -kInfinity<T>;
      slack_[c] = kSlack<T>;
    }
    statistics_.reset();
  }

  // Tile j is the first of another part.
  void begin_part(std::int64_t j, int keys) {
    if (part_index_ >= 0) {
      if (settle_part()) tiles_.repeat(j, keys);
      merge_part();
      part_.clear(columns_);
      for (int c = 0; c < columns_; ++c) slack_[c] = kSlack<T>;
    }
    part_index_ = j / kKeyPart;
    part_begin_ = j;
    part_kept_until_ = kept_until_;
  }

  void add_tile(std::int64_t j, int keys, bool careful) {
    for (const WeightsTask* w = task_.weights; w; w = w->next)
      if (keeps_scores(*w)) keep_scores(rows_of(*w), tile_, columns_, kept_until_, j, keys);
    kept_until_ = j + keys;
    if (few_weights_) normalize_narrow(keys);
    else normalize(j, keys);
    const TileWeights<T> weights =
        few_weights_ ? TileWeights<T>{few_weights_, 1, kTileKeys} : TileWeights<T>{tile_, columns_, 1};
    part_.values.add(tiles_.scores(), weights, j, keys, careful);
  }

  // A NaN may come from 0·∞ in the values of a hidden key: a part with one is done again without what has no weight. An
  // infinity may come from weights above 1: rows that still have one are done once more, every maximum followed. Rows that
  // were finite keep their bits. Returns whether tiles were repeated.
  bool settle_part() {
    if (part_.values.finite()) return false;
    repeat_part();
    if (part_.values.finite()) return true;
    for (int c = 0; c < task_.count; ++c)
      if (!part_.values.finite(c)) slack_[c] = 0;
    repeat_part();
    return true;
  }

  void repeat_part() {
    const std::int64_t here = tiles_.next();
    const std::int64_t end = part_index_ < 0 ? task_.key_end : (part_index_ + 1) * kKeyPart;
    tiles_.go_to(part_begin_);
    kept_until_ = part_kept_until_;
    part_.clear(columns_);
    if (kept_) statistics_.reset();
    tiles_.advance(end, [&](std::int64_t j, int keys) { add_tile(j, keys, true); });
    tiles_.go_to(here);
  }

  // Parts of the keys are merged in their order, as they are where tasks share them: the bits do not tell which it was.
  void merge_part() {
    if (!merged_) {
      // As a merge with nothing: times 1.
      part_.swap(*total_);
      merged_ = true;
      return;
    }
    const Tag<T> tag;

    for (int c = 0; c < columns_; c += kLanes<T>) {
      merge_factors<T>(hn::LoadU(tag, part_.max + c), total_->max + c, correction_ + c, others_ + c);
      const Vec<T> part = hn::Mul(hn::LoadU(tag, part_.sum + c), hn::LoadU(tag, others_ + c));
      const Vec<T> sum = hn::MulAdd(hn::LoadU(tag, total_->sum + c), hn::LoadU(tag, correction_ + c), part);
      hn::StoreU(sum, tag, total_->sum + c);
    }
    total_->values.merge(part_.values, correction_, others_);
  }

  void normalize_narrow(int keys) {
    for (int c = 0; c < task_.count; ++c) {
      T* line = few_weights_ + c * kTileKeys;
      for (int j = 0; j < kTileKeys; ++j) line[j] = j < keys ? tile_[j * columns_ + c] : -kInfinity<T>;
      if (task_.true_max)
        for (int j = 0; j < keys; ++j) {
          const T score = line[j] > kLargest<T> ? kLargest<T> : line[j];
          true_max_[c] = score > true_max_[c] ? score : true_max_[c];
        }
    }
    bool moved = false;
    for (int c = 0; c < columns_; ++c) correction_[c] = 1;
    for (int c = 0; c < task_.count; ++c) {
      const T before = part_.max[c];
      correction_[c] = few_weights(few_weights_ + c * kTileKeys, kTileKeys, slack_[c], part_.max[c]);
      moved = moved || part_.max[c] != before;
    }
    few_sums(few_weights_, kTileKeys, static_cast<int>(task_.count), keys, correction_, part_.sum);
    if (moved) part_.values.rescale(correction_);
  }

  void normalize(std::int64_t first, int keys) {
    const Tag<T> tag;
    Scores<T>& scores = tiles_.scores();
    T* const row_max = part_.max;
    T* const row_sum = part_.sum;
    if (kept_)
      for (int c = 0; c < columns_; ++c) {
        old_max_[c] = row_max[c];
        old_sum_[c] = row_sum[c];
      }
    bool moved = false;
    Strip strip = scores.strip_at(0);
    for (int c = 0; c < columns_; c += kLanes<T>) {
      if (c == strip.column + strip.columns) strip = scores.strip_at(c);
      const int from = kept_ ? 0 : strip.begin;
      const int to = kept_ ? keys : strip.end;
      const Vec<T> before = hn::LoadU(tag, row_max + c);
      Vec<T> top = before;
      for (int j = from; j < to; ++j) top = hn::Max(hn::LoadU(tag, tile_ + j * columns_ + c), top);
      if (!hn::AllFalse(tag, hn::Gt(top, hn::Set(tag, kLargest<T>)))) {
        clamp_scores(tile_, static_cast<std::int64_t>(keys) * columns_);
        top = hn::Min(top, hn::Set(tag, kLargest<T>));
      }
      if (task_.true_max) hn::StoreU(hn::Max(top, hn::LoadU(tag, true_max_ + c)), tag, true_max_ + c);
      top = follow<T>(before, top, hn::LoadU(tag, slack_ + c));
      const Vec<T> shift = shift_of<T>(top);
      const Vec<T> correction = exp_weight(hn::Sub(before, shift));
      if (!hn::AllTrue(tag, hn::Eq(before, top))) moved = true;
      hn::StoreU(top, tag, row_max + c);
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
      hn::StoreU(hn::MulAdd(hn::LoadU(tag, row_sum + c), correction, sum), tag, row_sum + c);
    }
    if (!kept_)
      for (int c = 0; c < columns_; c += kStrip<T>) scores.clear_outside(tile_, scores.strip_at(c));
    if (moved) part_.values.rescale(correction_);
    statistics_.add(first, keys, kept_, tile_, old_max_, row_max, old_sum_, correction_);
  }

  // A row that sees nothing has no weight to share with its sink.
  void add_sink() {
    const T sink = *head_.sink;
    T* const row_max = rows().max;
    T* const row_sum = rows().sum;
    for (int c = 0; c < columns_; ++c) {
      correction_[c] = 1;
      old_max_[c] = row_max[c];
      old_sum_[c] = row_sum[c];
      if (row_sum[c] == T(0)) continue;
      const T top = sink > row_max[c] ? sink : row_max[c];
      correction_[c] = std::exp(row_max[c] - top);
      old_sum_[c] *= correction_[c];
      row_sum[c] = old_sum_[c] + std::exp(sink - top);
      row_max[c] = top;
      if (task_.true_max && top > true_max_[c]) true_max_[c] = top;
    }
    rows().values.rescale(correction_);
    statistics_.rescale(correction_, old_sum_, old_max_, row_max);
  }

  void write_rows() {
    for (int c = 0; c < task_.count; ++c) {
      const std::int64_t i = task_.first_query + c;
      const T max = rows().max[c], sum = rows().sum[c];
      if (task_.row_max) {
        task_.row_max[i] = max;
        task_.row_sum[i] = sum;
      }
      if (task_.true_max) {
        // A NaN that the maximum passed over is in the sum.
        const T top = true_max_[c];
        task_.true_max[i] = sum == T(0) ? -kInfinity<T> : top;
        task_.true_sum[i] = sum == T(0) || top == max ? sum : sum * std::exp(max - top);
      }
      if (task_.lse.data) {
        const T lse = sum == T(0) ? -kInfinity<T> : max + std::log(sum);
        store_row(&lse, 1, task_.lse, i);
      }
    }
  }

  // Weights of the compute type: their place holds the scores until the sums are known.
  static bool keeps_scores(const WeightsTask& wanted) { return wanted.out.dtype == dtype_of<T>(); }

  WeightRows<T> rows_of(const WeightsTask& wanted) const {
    return WeightRows<T>(wanted, task_.first_query, task_.count);
  }

  // Now that the sums are known. Where the scores were not kept, in a second pass over them.
  void write_weights(const WeightsTask& wanted) {
    for (int c = 0; c < columns_; ++c) correction_[c] = rows().sum[c] == T(0) ? T(0) : T(1) / rows().sum[c];
    if (keeps_scores(wanted)) {
      const WeightRows<T> want = rows_of(wanted);
      for (int c = want.begin; c < want.end; ++c)
        finish_scores(want.at(c), kept_until_, head_.keys, rows().max[c], correction_[c]);
      return;
    }
    store_weights_again(tiles_, task_, wanted, columns_, line_, [&](std::int64_t, int keys) {
      clamp_scores(tile_, static_cast<std::int64_t>(keys) * columns_);
      weights_from_scores(tile_, keys, columns_, columns_, rows().max, correction_);
    });
  }

  const ForwardTask<T> task_;
  const HeadTask<T>& head_;
  const int columns_;
  KeyTiles<T> tiles_;
  RowStatistics<T> statistics_;
  SoftmaxRows<T> part_;                  // of the keys of one part, or of all of them
  std::optional<SoftmaxRows<T>> total_;  // of the parts before it, where there are
  bool merged_ = false;                  // there are
  std::int64_t part_index_ = -1;
  std::int64_t part_begin_ = 0;       // its first tile
  std::int64_t part_kept_until_ = 0;  // kept_until_ before it
  std::int64_t kept_until_ = 0;       // scores of earlier keys lie where weights are wanted
  T* tile_ = nullptr;                 // scores, then weights
  T* kept_ = nullptr;                 // the scores, where statistics want both
  T* few_weights_ = nullptr;          // [kNarrow][kTileKeys]: weights of few queries, without statistics
  T* old_max_ = nullptr;
  T* old_sum_ = nullptr;
  T* correction_ = nullptr;
  T* others_ = nullptr;
  T* true_max_ = nullptr;
  T* slack_ = nullptr;  // how far above its maximum a row's scores may be
  T* line_ = nullptr;   // [columns][kTileKeys]
};

}  // namespace rapt::inline v1::RAPT_TARGET
