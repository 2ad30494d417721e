#pragma once

#include "backends/cpu/simd/key_tiles.h"
#include "backends/cpu/simd/requested_weights.h"
#include "backends/cpu/simd/statistics.h"
#include "backends/cpu/simd/value_sums.h"

// Hard attention over a block of queries: the first largest score, without an exponential.
namespace rapt::inline v1::RAPT_TARGET {

template <class T>
class ArgmaxBlock {
 public:
  ArgmaxBlock(Arena& arena, const ForwardTask<T>& task)
      : task_(task),
        columns_(columns_for<T>(task.count)),
        tiles_(arena, task_, columns_),
        statistics_(arena, task_.statistics, columns_),
        values_(arena, task_, columns_) {
    tile_ = tiles_.tile();
    if (task.statistics.any()) no_weights_ = arena.take<T>(kTileKeys * columns_);
    if (task.weights) line_ = arena.take<T>(kTileKeys * columns_);
    for (T** row : {&max_, &sum_, &place_, &zeros_, &ones_}) *row = arena.take<T>(columns_);
    chosen_ = arena.take<std::int64_t>(columns_);
  }

  void begin() {
    tiles_.begin(task_.first_query, static_cast<int>(task_.count));
    for (int c = 0; c < columns_; ++c) {
      max_[c] = -kInfinity<T>;
      chosen_[c] = -1;
      zeros_[c] = 0;
      ones_[c] = 1;
    }
    for (std::int64_t n = 0; no_weights_ && n < kTileKeys * columns_; ++n) no_weights_[n] = 0;
    statistics_.reset();
  }

  void advance(std::int64_t before) {
    tiles_.advance(before, [&](std::int64_t first, int keys) { choose(first, keys); });
  }

  void finish() {
    for (int c = 0; c < columns_; ++c) sum_[c] = chosen_[c] < 0 ? T(0) : T(1);
    for (int c = 0; c < task_.count; ++c) {
      const std::int64_t i = task_.first_query + c;
      const bool is_nan = max_[c] != max_[c];
      if (task_.out) values_.store_value(task_.out, c, is_nan ? -1 : chosen_[c], is_nan ? max_[c] : T(0));
      if (task_.row_max) {
        task_.row_max[i] = max_[c];
        task_.row_sum[i] = is_nan ? max_[c] : static_cast<T>(chosen_[c]);
      }
      if (task_.lse.data) store_row(max_ + c, 1, task_.lse, i);
    }
    statistics_.finish(task_.first_query, static_cast<int>(task_.count), max_, sum_, sum_, true);
    for (const WeightsTask* w = task_.weights; w; w = w->next)
      store_weights_again(tiles_, task_, *w, columns_, line_, [&](std::int64_t first, int keys) {
        for (int j = 0; j < keys; ++j)
          for (int c = 0; c < columns_; ++c) tile_[j * columns_ + c] = T(chosen_[c] == first + j ? 1 : 0);
      });
  }

 private:
  void choose(std::int64_t first, int keys) {
    const Tag<T> tag;
    for (int c = 0; c < columns_; c += kLanes<T>) {
      if (choose_of(c, keys)) continue;
      // +∞ counts as the largest finite number.
      const Vec<T> largest = hn::Set(tag, kLargest<T>);
      for (int j = 0; j < keys; ++j) {
        const Vec<T> s = hn::LoadU(tag, tile_ + j * columns_ + c);
        hn::StoreU(hn::IfThenElse(hn::Gt(s, largest), largest, s), tag, tile_ + j * columns_ + c);
      }
      choose_of(c, keys);
    }
    for (int c = 0; c < columns_; ++c)
      if (place_[c] >= T(0)) chosen_[c] = first + static_cast<std::int64_t>(place_[c]);
    if (no_weights_) statistics_.add(first, keys, tile_, no_weights_, max_, max_, zeros_, ones_);
  }

  // Of the columns from c on. False, and nothing chosen: a score is +∞.
  bool choose_of(int c, int keys) {
    const Tag<T> tag;
    Vec<T> best = hn::LoadU(tag, max_ + c);
    Vec<T> place = hn::Set(tag, T(-1));
    for (int j = 0; j < keys; ++j) {
      const Vec<T> s = hn::LoadU(tag, tile_ + j * columns_ + c);
      // A NaN is taken and then kept: no number is larger than it.
      const auto better = hn::And(hn::Not(hn::Le(s, best)), hn::Eq(best, best));
      best = hn::IfThenElse(better, s, best);
      place = hn::IfThenElse(better, hn::Set(tag, static_cast<T>(j)), place);
    }
    if (!hn::AllFalse(tag, hn::Gt(best, hn::Set(tag, kLargest<T>)))) return false;
    hn::StoreU(best, tag, max_ + c);
    hn::StoreU(place, tag, place_ + c);
    return true;
  }

  const ForwardTask<T> task_;
  const int columns_;
  KeyTiles<T> tiles_;
  RowStatistics<T> statistics_;
  ValueSums<T> values_;
  T* tile_ = nullptr;
  T* no_weights_ = nullptr;  // [kTileKeys][columns]: what statistics are told before the choice is known
  T* line_ = nullptr;        // [columns][kTileKeys]
  T* max_ = nullptr;
  T* sum_ = nullptr;
  T* place_ = nullptr;
  T* zeros_ = nullptr;
  T* ones_ = nullptr;
  std::int64_t* chosen_ = nullptr;
};

}  // namespace rapt::inline v1::RAPT_TARGET
