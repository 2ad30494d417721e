#pragma once

#include <cmath>

#include "backends/cpu/simd/key_tiles.h"
#include "backends/cpu/simd/requested_weights.h"
#include "backends/cpu/simd/statistics.h"
#include "backends/cpu/simd/value_sums.h"

// Normalisers whose weights are weight(score − τ): τ is 0, or makes every row sum to 1.
namespace rapt::inline v1::RAPT_TARGET {

// Finds τ of the rows of a block from all their scores: Newton's method on Σ weight(z − τ) = 1, z = score − row maximum.
// weight() is convex, so steps from the left never pass the root and end when rounding stops them.
template <class T>
class ThresholdSearch {
 public:
  ThresholdSearch(Arena& arena, const NormalizerProgram<T>& program, int columns)
      : program_(program), columns_(columns) {
    for (T** row : {&weight_sum_, &slope_sum_, &steps_back_}) *row = arena.take<T>(columns);
  }

  // tiles: `count` of [kTileKeys][columns], the scores; tops: [count][columns], their largest; keys of each tile.
  void run(T* tiles, const T* tops, const int* keys, std::int64_t count, const T* row_max, T* threshold) {
    const Tag<T> tag;
    for (int c = 0; c < columns_; ++c) threshold[c] = -program_.reach;
    // Rounding may take a step past the root; some steps back, and a row is as near as its sums tell. Every row ends by
    // itself, so that its bits do not depend on its neighbours.
    for (int c = 0; c < columns_; ++c) steps_back_[c] = kStepsBack;
    for (bool moved = true; moved;) {
      for (int c = 0; c < columns_; ++c) weight_sum_[c] = slope_sum_[c] = 0;
      for (std::int64_t n = 0; n < count; ++n)
        if (reaches(tops + n * columns_, row_max, threshold))
          program_.sum({.tile = tiles + n * kTileKeys * columns_,
                        .keys = keys[n],
                        .columns = columns_,
                        .stride = columns_,
                        .row_max = row_max,
                        .threshold = threshold,
                        .weight_sum = weight_sum_,
                        .slope_sum = slope_sum_});
      moved = false;
      for (int c = 0; c < columns_; c += kLanes<T>) {
        const Vec<T> zero = hn::Zero(tag);
        const Vec<T> slope = hn::LoadU(tag, slope_sum_ + c);
        const Vec<T> left = hn::LoadU(tag, steps_back_ + c);
        const Vec<T> excess = hn::Sub(hn::LoadU(tag, weight_sum_ + c), hn::Set(tag, T(1)));
        const auto live = hn::And(hn::Gt(left, zero), hn::Gt(slope, zero));
        const Vec<T> step = hn::IfThenElseZero(live, hn::Div(excess, slope));
        const Vec<T> next = hn::Add(hn::LoadU(tag, threshold + c), step);
        const Vec<T> rounding = hn::Mul(hn::Abs(next), hn::Set(tag, std::numeric_limits<T>::epsilon()));
        const auto goes_on = hn::Gt(hn::Abs(step), rounding);
        const Vec<T> fewer = hn::IfThenElse(hn::Lt(step, zero), hn::Sub(left, hn::Set(tag, T(1))), left);
        const Vec<T> remain = hn::IfThenElseZero(goes_on, fewer);
        hn::StoreU(next, tag, threshold + c);
        hn::StoreU(remain, tag, steps_back_ + c);
        moved = moved || !hn::AllFalse(tag, hn::Gt(remain, zero));
      }
    }
  }

  // Whether a tile with these largest scores has any weight.
  bool reaches(const T* tops, const T* row_max, const T* threshold) const {
    const Tag<T> tag;
    for (int c = 0; c < columns_; c += kLanes<T>) {
      const Vec<T> z = hn::Sub(hn::LoadU(tag, tops + c), shift_of<T>(hn::LoadU(tag, row_max + c)));
      // Not "all below", so that a NaN is looked at.
      if (!hn::AllTrue(tag, hn::Le(z, hn::LoadU(tag, threshold + c)))) return true;
    }
    return false;
  }

 private:
  static constexpr T kStepsBack = 3;

  const NormalizerProgram<T>& program_;
  const int columns_;
  T* weight_sum_ = nullptr;
  T* slope_sum_ = nullptr;
  T* steps_back_ = nullptr;  // that a row may still take; 0: it is done
};

template <class T>
class ThresholdBlock {
 public:
  ThresholdBlock(Arena& arena, const ForwardTask<T>& task)
      : task_(task),
        head_(*task.head),
        columns_(columns_for<T>(task.count)),
        solved_(head_.normalizer->threshold == Threshold::solved),
        tiles_(arena, task_, columns_),
        statistics_(arena, task_.statistics, columns_),
        values_(arena, task_, columns_),
        search_(arena, *head_.normalizer, columns_) {
    for (T** row : {&max_, &threshold_, &sum_, &before_, &ones_}) *row = arena.take<T>(columns_);
    if (task.weights || task.statistics.any()) line_ = arena.take<T>(kTileKeys * columns_);
    if (!solved_) return;
    const std::int64_t most = (head_.keys + kTileKeys - 1) / kTileKeys + 1;
    stored_ = arena.take<T>(most * kTileKeys * columns_);
    tops_ = arena.take<T>(most * columns_);
    firsts_ = arena.take<std::int64_t>(most);
    keys_ = arena.take<int>(most);
  }

  void begin() {
    tiles_.begin(task_.first_query, static_cast<int>(task_.count));
    restart();
  }

  void advance(std::int64_t before) {
    tiles_.advance(before, [&](std::int64_t first, int keys) {
      if (solved_) keep(first, keys);
      else weigh(tiles_.tile(), first, keys, false);
    });
  }

  void finish() {
    if (solved_) {
      search_.run(stored_, tops_, keys_, count_, max_, threshold_);
      weigh_kept(false);
    }
    if (!values_.finite()) run_carefully();
    values_.store(task_.out, ones_);
    write_rows();
    statistics_.finish(task_.first_query, static_cast<int>(task_.count), max_, sum_, sum_, false);
    for (const WeightsTask* w = task_.weights; w; w = w->next)
      store_weights_again(tiles_, task_, *w, columns_, line_,
                          [&](std::int64_t, int keys) { weights(tiles_.tile(), keys); });
  }

 private:
  void restart() {
    count_ = 0;
    for (int c = 0; c < columns_; ++c) {
      max_[c] = solved_ ? -kInfinity<T> : T(0);
      threshold_[c] = 0;
      sum_[c] = 0;
      ones_[c] = 1;
    }
    statistics_.reset();
    values_.clear();
  }

  void keep(std::int64_t first, int keys) {
    const Tag<T> tag;
    const Vec<T> largest = hn::Set(tag, kLargest<T>);
    const T* tile = tiles_.tile();
    for (int c = 0; c < columns_; c += kLanes<T>) {
      Vec<T> top = hn::Set(tag, -kInfinity<T>);
      for (int j = 0; j < keys; ++j) {
        // +∞ counts as the largest number, so that such keys share the weight.
        const Vec<T> given = hn::LoadU(tag, tile + j * columns_ + c);
        const Vec<T> s = hn::IfThenElse(hn::Gt(given, largest), largest, given);
        top = hn::IfThenElse(hn::And(hn::Le(s, top), hn::Eq(top, top)), top, hn::IfThenElse(hn::Eq(top, top), s, top));
        hn::StoreU(s, tag, stored_ + (count_ * kTileKeys + j) * columns_ + c);
      }
      hn::StoreU(top, tag, tops_ + count_ * columns_ + c);
      // A NaN is taken and kept, and makes its row NaN.
      const Vec<T> before = hn::LoadU(tag, max_ + c);
      const auto stays = hn::Or(hn::Le(top, before), hn::Ne(before, before));
      hn::StoreU(hn::IfThenElse(stays, before, top), tag, max_ + c);
    }
    firsts_[count_] = first;
    keys_[count_++] = keys;
  }

  void weights(T* tile, int keys) {
    head_.normalizer->weights({.tile = tile,
                               .keys = keys,
                               .columns = columns_,
                               .stride = columns_,
                               .row_max = max_,
                               .threshold = threshold_,
                               .values = head_.normalizer_values});
  }

  void weigh(T* tile, std::int64_t first, int keys, bool careful) {
    const Tag<T> tag;
    const bool wants = task_.statistics.any();
    if (wants)
      for (std::int64_t n = 0; n < static_cast<std::int64_t>(keys) * columns_; ++n) line_[n] = tile[n];
    weights(tile, keys);
    for (int c = 0; c < columns_; c += kLanes<T>) {
      const Vec<T> before = hn::LoadU(tag, sum_ + c);
      hn::StoreU(before, tag, before_ + c);
      Vec<T> sum = hn::Zero(tag);
      for (int j = 0; j < keys; ++j) sum = hn::Add(sum, hn::LoadU(tag, tile + j * columns_ + c));
      hn::StoreU(hn::Add(before, sum), tag, sum_ + c);
    }
    values_.add(tiles_.scores(), {tile, columns_, 1}, first, keys, careful);
    if (wants) statistics_.add_weights(first, keys, line_, tile, before_);
  }

  void weigh_kept(bool careful) {
    for (std::int64_t n = 0; n < count_; ++n) {
      const bool seen = search_.reaches(tops_ + n * columns_, max_, threshold_);
      if (!seen && !task_.statistics.any()) continue;
      tiles_.scores().set_tile(firsts_[n], keys_[n]);
      weigh(stored_ + n * kTileKeys * columns_, firsts_[n], keys_[n], careful);
    }
  }

  // What has no weight takes nothing of a value that is not finite.
  void run_carefully() {
    tiles_.restart();
    T* const kept = threshold_;
    if (!solved_) restart();
    count_ = 0;
    for (int c = 0; c < columns_; ++c) sum_[c] = 0;
    statistics_.reset();
    values_.clear();
    threshold_ = kept;
    tiles_.advance(task_.key_end, [&](std::int64_t first, int keys) { weigh(tiles_.tile(), first, keys, true); });
  }

  void write_rows() {
    for (int c = 0; c < task_.count; ++c) {
      const std::int64_t i = task_.first_query + c;
      const bool nothing = solved_ ? max_[c] == -kInfinity<T> : sum_[c] == T(0);
      if (task_.row_max) {
        task_.row_max[i] = max_[c];
        task_.row_sum[i] = threshold_[c];
      }
      if (!task_.lse.data) continue;
      T lse = -kInfinity<T>;
      if (!nothing) lse = solved_ ? max_[c] + threshold_[c] : std::log(sum_[c]);
      store_row(&lse, 1, task_.lse, i);
    }
  }

  const ForwardTask<T> task_;
  const HeadTask<T>& head_;
  const int columns_;
  const bool solved_;
  KeyTiles<T> tiles_;
  RowStatistics<T> statistics_;
  ValueSums<T> values_;
  ThresholdSearch<T> search_;
  T* max_ = nullptr;
  T* threshold_ = nullptr;  // τ − max
  T* sum_ = nullptr;        // of the weights
  T* before_ = nullptr;
  T* ones_ = nullptr;
  T* line_ = nullptr;  // [columns][kTileKeys]
  // solved: all scores that the block sees, tile by tile.
  std::int64_t count_ = 0;
  T* stored_ = nullptr;  // [tiles][kTileKeys][columns]
  T* tops_ = nullptr;    // [tiles][columns]
  std::int64_t* firsts_ = nullptr;
  int* keys_ = nullptr;
};

}  // namespace rapt::inline v1::RAPT_TARGET
