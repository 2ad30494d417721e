#pragma once

#include <cmath>

#include "backends/cpu/simd/scores.h"

// Statistics of rows of weights, gathered tile by tile beside the output. Nothing here grows with the number of keys.
namespace rapt::inline v1::RAPT_TARGET {

template <class T>
class RowStatistics {
 public:
  RowStatistics(Arena& arena, const StatisticsTask<T>& task, int columns) : task_(task), columns_(columns) {
    if (!task.any()) return;
    best_ = arena.take<T>(columns_);
    best_place_ = arena.take<T>(columns_);
    best_key_ = arena.take<std::int64_t>(columns_);
    for (T*& sum : sums_) sum = arena.take<T>(columns_);
    origin_row_ = arena.take<T>(columns_);
    origin_col_ = arena.take<T>(columns_);
    key_row_ = arena.take<T>(kTileKeys);
    key_col_ = arena.take<T>(kTileKeys);
    if (task.top_k > 0) {
      top_scores_ = arena.take<T>(static_cast<std::int64_t>(task.top_k) * columns_);
      top_keys_ = arena.take<std::int64_t>(static_cast<std::int64_t>(task.top_k) * columns_);
      top_weights_ = arena.take<T>(static_cast<std::int64_t>(task.top_k) * columns_);
      threshold_ = arena.take<T>(columns_);
    }
  }

  void reset() {
    if (!task_.any()) return;
    for (int c = 0; c < columns_; ++c) {
      best_[c] = -kInfinity<T>;
      best_key_[c] = -1;
      origin_row_[c] = 0;
      origin_col_[c] = 0;
      for (T* sum : sums_) sum[c] = 0;
      if (threshold_) threshold_[c] = -kInfinity<T>;
    }
    for (std::int64_t n = 0; n < static_cast<std::int64_t>(task_.top_k) * columns_; ++n) {
      top_scores_[n] = -kInfinity<T>;
      top_keys_[n] = -1;
    }
  }

  // The tile's scores and their weights e^{score − new_max}. old_sum and old_max are those before the tile; correction is
  // what sums made under old_max are multiplied by.
  void add(std::int64_t first, int keys, const T* scores, const T* weights, const T* old_max, const T* new_max,
           const T* old_sum, const T* correction) {
    if (!task_.any()) return;
    find_best(scores, keys);
    for (int j = 0; j < keys; ++j) place_of(first + j, key_row_[j], key_col_[j]);
    for (int c = 0; c < columns_; ++c) {
      // Sums made under the old maximum belong to the new one, entropy's also moves by the difference.
      const T f = correction[c];
      const T mass = old_sum[c] * f;
      sums_[kEntropy][c] = f == T(0) ? T(0) : f * sums_[kEntropy][c] + (old_max[c] - new_max[c]) * mass;
      for (int n = kRow; n < kSums; ++n) sums_[n][c] = f == T(0) ? T(0) : f * sums_[n][c];
      if (best_place_[c] < T(0)) continue;
      best_key_[c] = first + static_cast<std::int64_t>(best_place_[c]);
      move_origin(c, mass);
    }
    accumulate(scores, weights, keys, new_max);
    if (task_.top_k > 0) find_top(first, scores, nullptr, keys);
  }

  // The same where weights are final: nothing made before has to be rescaled. `mass`: their sum before this tile.
  void add_weights(std::int64_t first, int keys, const T* scores, T* weights, const T* mass) {
    if (!task_.any()) return;
    find_best(scores, keys);
    for (int j = 0; j < keys; ++j) place_of(first + j, key_row_[j], key_col_[j]);
    for (int c = 0; c < columns_; ++c) {
      if (best_place_[c] < T(0)) continue;
      best_key_[c] = first + static_cast<std::int64_t>(best_place_[c]);
      move_origin(c, mass[c]);
    }
    accumulate(nullptr, weights, keys, nullptr);
    if (task_.top_k > 0) find_top(first, scores, weights, keys);
    final_ = true;
  }

  // Sums made under another maximum than this one, which they are to be multiplied by `factor` for.
  void rescale(const T* factor, const T* mass, const T* old_max, const T* new_max) {
    if (!task_.any()) return;
    for (int c = 0; c < columns_; ++c) {
      for (T* sum : sums_) sum[c] *= factor[c];
      if (mass[c] != T(0)) sums_[kEntropy][c] += (old_max[c] - new_max[c]) * mass[c];
    }
  }

  // Weights are exp(score − row_max)/row_sum, or final. `mass` is what those of a row sum to, times row_sum.
  void finish(std::int64_t first_query, int count, const T* row_max, const T* row_sum, const T* mass, bool hard) {
    if (!task_.any()) return;
    const bool grid = task_.grid_cols > 0;
    for (int c = 0; c < count; ++c) {
      const std::int64_t i = first_query + c;
      const T sum = row_sum[c];
      const bool empty = mass[c] == T(0);
      const T inverse = empty ? T(0) : T(1) / mass[c];
      if (task_.entropy) {
        // Rounding may leave a tiny negative number where one key has all the weight.
        const T h = empty || hard ? T(0) : (std::log(sum) * mass[c] - sums_[kEntropy][c]) / sum;
        task_.entropy[i] = h < T(0) ? T(0) : h;
      }
      if (task_.argmax) task_.argmax[i] = best_key_[c];
      T row = origin_row_[c], col = origin_col_[c];
      T rr = 0, rc = 0, cc = 0;
      if (!hard) {
        const T dr = sums_[kRow][c] * inverse, dc = sums_[kCol][c] * inverse;
        row += dr;
        col += dc;
        rr = sums_[kRowRow][c] * inverse - dr * dr;
        rc = sums_[kRowCol][c] * inverse - dr * dc;
        cc = sums_[kColCol][c] * inverse - dc * dc;
      }
      if (empty) row = col = 0;
      if (task_.position) {
        if (grid) {
          task_.position[2 * i] = row;
          task_.position[2 * i + 1] = col;
        } else {
          task_.position[i] = col;
        }
      }
      if (task_.covariance) {
        if (grid) {
          task_.covariance[4 * i] = rr < T(0) ? T(0) : rr;
          task_.covariance[4 * i + 1] = rc;
          task_.covariance[4 * i + 2] = rc;
          task_.covariance[4 * i + 3] = cc < T(0) ? T(0) : cc;
        } else {
          task_.covariance[i] = cc < T(0) ? T(0) : cc;
        }
      }
      for (int n = 0; n < task_.top_k; ++n) {
        const std::int64_t slot = static_cast<std::int64_t>(c) * task_.top_k + n;
        const std::int64_t key = top_keys_[slot];
        T weight = 0;
        if (key >= 0 && hard) weight = n == 0 ? T(1) : T(0);
        else if (key >= 0 && final_) weight = top_weights_[slot];
        else if (key >= 0 && !empty) weight = std::exp(top_scores_[slot] - row_max[c]) / sum;
        if (task_.top_indices) task_.top_indices[i * task_.top_k + n] = key;
        if (task_.top_weights) task_.top_weights[i * task_.top_k + n] = weight;
      }
    }
  }

 private:
  enum Sum { kEntropy, kRow, kCol, kRowRow, kRowCol, kColCol, kSums };

  void place_of(std::int64_t key, T& row, T& col) const {
    row = task_.grid_cols > 0 ? static_cast<T>(key / task_.grid_cols) : T(0);
    col = static_cast<T>(task_.grid_cols > 0 ? key % task_.grid_cols : key);
  }

  // best_place: place in the tile of a new largest score, −1 where there is none.
  void find_best(const T* scores, int keys) {
    const Tag<T> tag;
    for (int c = 0; c < columns_; c += kLanes<T>) {
      Vec<T> best = hn::LoadU(tag, best_ + c);
      Vec<T> place = hn::Set(tag, T(-1));
      for (int j = 0; j < keys; ++j) {
        const Vec<T> s = hn::LoadU(tag, scores + static_cast<std::ptrdiff_t>(j) * columns_ + c);
        const auto better = hn::Gt(s, best);
        best = hn::IfThenElse(better, s, best);
        place = hn::IfThenElse(better, hn::Set(tag, static_cast<T>(j)), place);
      }
      hn::StoreU(best, tag, best_ + c);
      hn::StoreU(place, tag, best_place_ + c);
    }
  }

  // Positions are counted from the best key so far, where most of the weight is: sums of squares stay small there.
  void move_origin(int c, T mass) {
    T row, col;
    place_of(best_key_[c], row, col);
    const T dr = row - origin_row_[c], dc = col - origin_col_[c];
    const T r = sums_[kRow][c], k = sums_[kCol][c];
    sums_[kRowRow][c] += dr * (dr * mass - 2 * r);
    sums_[kRowCol][c] += dr * dc * mass - dr * k - dc * r;
    sums_[kColCol][c] += dc * (dc * mass - 2 * k);
    sums_[kRow][c] = r - dr * mass;
    sums_[kCol][c] = k - dc * mass;
    origin_row_[c] = row;
    origin_col_[c] = col;
  }

  void accumulate(const T* scores, const T* weights, int keys, const T* row_max) {
    const Tag<T> tag;
    const bool moments = task_.position || task_.covariance;
    const bool grid = task_.grid_cols > 0;
    for (int c = 0; c < columns_; c += kLanes<T>) {
      const Vec<T> shift = row_max ? shift_of<T>(hn::LoadU(tag, row_max + c)) : hn::Zero(tag);
      const Vec<T> row0 = hn::LoadU(tag, origin_row_ + c);
      const Vec<T> col0 = hn::LoadU(tag, origin_col_ + c);
      Vec<T> sum[kSums];
      for (int n = 0; n < kSums; ++n) sum[n] = hn::LoadU(tag, sums_[n] + c);
      for (int j = 0; j < keys; ++j) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(j) * columns_ + c;
        const Vec<T> w = hn::LoadU(tag, weights + at);
        const auto nothing = hn::Eq(w, hn::Zero(tag));  // 0 · −∞
        const Vec<T> x = scores ? hn::Sub(hn::LoadU(tag, scores + at), shift) : log(Lane<T>(w)).v;
        sum[kEntropy] = hn::Add(sum[kEntropy], hn::IfThenZeroElse(nothing, hn::Mul(w, x)));
        if (!moments) continue;
        const Vec<T> dc = hn::Sub(hn::Set(tag, key_col_[j]), col0);
        const Vec<T> wc = hn::Mul(w, dc);
        sum[kCol] = hn::Add(sum[kCol], wc);
        sum[kColCol] = hn::MulAdd(wc, dc, sum[kColCol]);
        if (!grid) continue;
        const Vec<T> dr = hn::Sub(hn::Set(tag, key_row_[j]), row0);
        const Vec<T> wr = hn::Mul(w, dr);
        sum[kRow] = hn::Add(sum[kRow], wr);
        sum[kRowRow] = hn::MulAdd(wr, dr, sum[kRowRow]);
        sum[kRowCol] = hn::MulAdd(wr, dc, sum[kRowCol]);
      }
      for (int n = 0; n < kSums; ++n) hn::StoreU(sum[n], tag, sums_[n] + c);
    }
  }

  void find_top(std::int64_t first, const T* scores, const T* weights, int keys) {
    const Tag<T> tag;
    for (int j = 0; j < keys; ++j)
      for (int c = 0; c < columns_; c += kLanes<T>) {
        const T* s = scores + static_cast<std::ptrdiff_t>(j) * columns_ + c;
        if (hn::AllFalse(tag, hn::Gt(hn::LoadU(tag, s), hn::LoadU(tag, threshold_ + c)))) continue;
        for (int l = 0; l < kLanes<T>; ++l)
          if (s[l] > threshold_[c + l]) insert_top(c + l, s[l], weights ? weights[s - scores + l] : T(0), first + j);
      }
  }

  void insert_top(int c, T score, T weight, std::int64_t key) {
    T* scores = top_scores_ + static_cast<std::ptrdiff_t>(c) * task_.top_k;
    T* weights = top_weights_ + static_cast<std::ptrdiff_t>(c) * task_.top_k;
    std::int64_t* keys = top_keys_ + static_cast<std::ptrdiff_t>(c) * task_.top_k;
    int n = task_.top_k - 1;
    for (; n > 0 && scores[n - 1] < score; --n) {
      scores[n] = scores[n - 1];
      weights[n] = weights[n - 1];
      keys[n] = keys[n - 1];
    }
    scores[n] = score;
    weights[n] = weight;
    keys[n] = key;
    threshold_[c] = scores[task_.top_k - 1];
  }

  const StatisticsTask<T>& task_;
  const int columns_;
  T* best_ = nullptr;
  T* best_place_ = nullptr;
  std::int64_t* best_key_ = nullptr;
  T* sums_[kSums] = {};
  T* origin_row_ = nullptr;
  T* origin_col_ = nullptr;
  T* key_row_ = nullptr;
  T* key_col_ = nullptr;
  T* top_scores_ = nullptr;
  std::int64_t* top_keys_ = nullptr;
  T* top_weights_ = nullptr;
  bool final_ = false;
  T* threshold_ = nullptr;
};

}  // namespace rapt::inline v1::RAPT_TARGET
