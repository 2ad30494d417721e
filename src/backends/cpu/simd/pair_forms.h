#pragma once

#include <cstdint>

#include "backends/cpu/simd/rows.h"

// Raw scores of prepared rows: each pair by fast_raw or, as the centers of its two rows say, by its plain form. A row's bits
// thus depend on no other row, and both directions take the same form.
namespace rapt::inline v1::RAPT_TARGET {

template <class T>
class PairForms {
 public:
  void allocate(Arena& arena, const HeadTask<T>& head, int columns) {
    head_ = &head;
    width_ = columns;
    columns_ = arena.take<T>(head.dim * columns);
    centers_ = arena.take<T>(columns);
    tile_ = arena.take<T>(kTileKeys * columns);
  }

  // The queries of a block as they were before they were prepared: [dim][columns], filled by the caller.
  T* columns() { return columns_; }

  void set_queries(std::int64_t first, int count) {
    some_small_ = some_plain_ = false;
    for (int c = 0; c < width_; ++c) {
      centers_[c] = head_->q_centers[first + (c < count ? c : count - 1)];
      some_plain_ = some_plain_ || centers_[c] != centers_[c];
      some_small_ = some_small_ || is_small(centers_[c]);
    }
  }

  // `pairs` has the prepared rows, and scores to be written.
  void score(const PairTile<T>& pairs, std::int64_t first_key) {
    const bool mixed = head_->plain_q.data && find_plain(first_key, pairs.keys);
    if (!mixed || !all_plain_) head_->program->fast_raw(pairs);
    if (!mixed) return;
    each_part(pairs, first_key, [&](PairTile<T> plain, std::ptrdiff_t at) {
      plain.scores = tile_ + at;
      head_->program->raw(plain);
      each_vector(plain, at, first_key, [&](std::ptrdiff_t place, auto is_fast) {
        T* to = pairs.scores + place;
        hn::StoreU(hn::IfThenElse(is_fast, hn::LoadU(tag_, to), hn::LoadU(tag_, tile_ + place)), tag_, to);
      });
    });
  }

  // The same for gradients; those of plain pairs are 0 afterwards. Which calls are made and what each sums follows from the
  // pairs that have a gradient: hidden rows have no influence on the order of sums.
  void backward(const PairTile<T>& pairs, T* grads, std::int64_t first_key) {
    bool some_plain = false, some_fast = true;
    if (head_->plain_q.data) some_plain = split(grads, pairs.keys, first_key, some_fast);
    PairTile<T> plain = pairs;
    plain.queries = columns_;
    plain.grad = tile_;
    if (some_plain) {
      plain.key_stride = head_->plain_k.stride;
      plain.key_rows = static_cast<const T*>(head_->plain_k.data) + first_key * plain.key_stride;
    }
    if (some_plain && some_fast) plain.keys = 1;
    for (int j = 0; j < pairs.keys && some_plain; j += plain.keys) {
      if (!some_fast || plain_[j] != 0) head_->program->raw_backward(plain);
      plain.key_rows += plain.key_stride;
      plain.grad += width_;
      plain.grad_keys += plain.grad_key_stride;
    }
    if (some_fast) head_->program->fast_raw_backward(pairs);
  }

 private:
  static bool is_small(T center) { return center - center == 0; }

  // Which vectors of each key's pairs have a plain one; whether any has.
  bool find_plain(std::int64_t first, int keys) {
    bool some = false;
    all_plain_ = true;
    for (int j = 0; j < keys; ++j) {
      const T center = head_->k_centers[first + j];
      plain_[j] = 0;
      const bool ordinary = !some_plain_ && !(some_small_ && is_small(center)) && center == center;
      for (int c = 0; c < width_ && !ordinary; c += kLanes<T>) {
        const auto fast = is_fast(c, center);
        if (!hn::AllTrue(tag_, fast)) plain_[j] |= std::uint64_t{1} << (c / kLanes<T>);
        all_plain_ = all_plain_ && hn::AllFalse(tag_, fast);
      }
      some = some || plain_[j] != 0;
      all_plain_ = all_plain_ && !ordinary;
    }
    return some;
  }

  // Moves the gradients of plain pairs to tile_. plain_ tells which keys have any, the result whether some have.
  bool split(T* grads, int keys, std::int64_t first_key, bool& some_fast) {
    bool some_plain = false;
    some_fast = false;
    for (int j = 0; j < keys; ++j) {
      plain_[j] = 0;
      for (int c = 0; c < width_; c += kLanes<T>) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(j) * width_ + c;
        const auto fast = is_fast(c, head_->k_centers[first_key + j]);
        const Vec<T> all = hn::LoadU(tag_, grads + at), zero = hn::Zero(tag_);
        const Vec<T> own = hn::IfThenZeroElse(fast, all), other = hn::IfThenElseZero(fast, all);
        hn::StoreU(own, tag_, tile_ + at);
        hn::StoreU(other, tag_, grads + at);
        if (!hn::AllTrue(tag_, hn::Eq(own, zero))) plain_[j] = 1;
        some_fast = some_fast || !hn::AllTrue(tag_, hn::Eq(other, zero));
      }
      some_plain = some_plain || plain_[j] != 0;
    }
    return some_plain;
  }

  hn::Mask<Tag<T>> is_fast(std::ptrdiff_t c, T center) const {
    const Vec<T> sum = hn::Add(hn::LoadU(tag_, centers_ + c), hn::Set(tag_, center));
    return hn::Gt(hn::Abs(sum), hn::Set(tag_, T(1)));
  }

  // Calls f(plain rows, place of the first pair in the tile) for parts that together have all plain pairs: keys that follow
  // each other with the same vectors, and vectors that follow each other.
  template <class F>
  void each_part(const PairTile<T>& pairs, std::int64_t first_key, F&& f) {
    const int vectors = width_ / kLanes<T>;
    for (int begin = 0, end = 0; begin < pairs.keys; begin = end) {
      const std::uint64_t which = plain_[begin];
      for (end = begin + 1; end < pairs.keys && plain_[end] == which; ++end) {
      }
      for (int from = 0, to = 0; from < vectors; from = to + 1) {
        for (to = from; to < vectors && (which >> to & 1) != 0; ++to) {
        }
        if (to == from) continue;
        PairTile<T> plain = pairs;
        plain.queries = columns_ + from * kLanes<T>;
        plain.columns = (to - from) * kLanes<T>;
        plain.key_stride = head_->plain_k.stride;
        plain.key_rows = static_cast<const T*>(head_->plain_k.data) + (first_key + begin) * plain.key_stride;
        plain.keys = end - begin;
        f(plain, static_cast<std::ptrdiff_t>(begin) * width_ + from * kLanes<T>);
      }
    }
  }

  // Calls f(place, which of its pairs are fast) for all vectors of a part.
  template <class F>
  void each_vector(const PairTile<T>& part, std::ptrdiff_t at, std::int64_t first_key, F&& f) const {
    for (int j = 0; j < part.keys; ++j)
      for (int c = 0; c < part.columns; c += kLanes<T>) {
        const std::ptrdiff_t place = at + static_cast<std::ptrdiff_t>(j) * width_ + c;
        f(place, is_fast(place % width_, head_->k_centers[first_key + place / width_]));
      }
  }

  static constexpr Tag<T> tag_{};
  const HeadTask<T>* head_ = nullptr;
  int width_ = 0;
  T* columns_ = nullptr;
  T* centers_ = nullptr;  // [columns], of the queries
  T* tile_ = nullptr;     // [kTileKeys][columns], of plain pairs
  bool some_small_ = false, some_plain_ = false, all_plain_ = false;
  std::uint64_t plain_[kTileKeys] = {};  // a bit for each vector of a key's pairs
};

}  // namespace rapt::inline v1::RAPT_TARGET
