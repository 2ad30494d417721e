#pragma once

#include "backends/cpu/simd/scores.h"

// A block of queries on its way through the tiles of keys that it sees.
namespace rapt::inline v1::RAPT_TARGET {

template <class T>
class KeyTiles {
 public:
  KeyTiles(Arena& arena, const ForwardTask<T>& task, int columns)
      : head_(*task.head), key_begin_(task.key_begin), key_end_(task.key_end), scores_(arena, head_, columns, 0) {
    tile_ = arena.take<T>(kTileKeys * columns);
    if (head_.bf16) key_tile16_ = arena.take<std::uint16_t>(kTileKeys * scores_.bf16_dim());
    key_tile_ = arena.take<T>(kTileKeys * scores_.dim_pad());
  }

  void begin(std::int64_t first_query, int count) {
    scores_.set_visible(first_query, count);
    scores_.load_queries();
    restart();
  }

  // Tiles begin at multiples of their size: a row then meets the same tiles whatever rows are beside it.
  void restart() {
    next_ = key_begin_ > scores_.first_key() ? key_begin_ : scores_.first_key();
    next_ -= next_ % kTileKeys;
  }

  // The tile that comes next: its first key. Going back repeats tiles.
  std::int64_t next() const { return next_; }
  void go_to(std::int64_t first) { next_ = first; }
  // The tile that was given last, where others were computed since.
  void repeat(std::int64_t first, int keys) {
    scores_.visible(first, keys);
    score(first, keys, tile_);
  }

  // The key that the tiles seen end before.
  std::int64_t end() const { return key_end_ < scores_.last_key() ? key_end_ : scores_.last_key(); }

  // Calls f(first_key, keys) for each tile before this key that was not done yet, its scores in tile().
  template <class F>
  void advance(std::int64_t before, F&& f) {
    for (; next_ < end() && next_ < before; next_ += kTileKeys) {
      const int keys = static_cast<int>(end() - next_ < kTileKeys ? end() - next_ : kTileKeys);
      if (scores_.visible(next_, keys) == Visible::none) continue;
      score(next_, keys, tile_);
      f(next_, keys);
    }
  }

  // [kTileKeys][columns]
  T* tile() const { return tile_; }
  Scores<T>& scores() { return scores_; }
  const Scores<T>& scores() const { return scores_; }

  void score(std::int64_t first, int keys, T* to) {
    if (head_.bf16) {
      scores_.tile(first, keys, nullptr, 0, to, bf16_rows(first, keys));
      return;
    }
    if (scores_.reads_bf16()) {
      const auto* rows = static_cast<const std::uint16_t*>(head_.k.data) + first * head_.k.stride;
      scores_.tile(first, keys, nullptr, 0, to, {rows, head_.k.stride * 2});
      return;
    }
    std::ptrdiff_t stride = 0;
    const T* rows = key_tile_;
    if (head_.content) rows = rows_at(head_.k, first, keys, head_.dim, key_tile_, scores_.dim_pad(), stride);
    scores_.tile(first, keys, rows, stride, to);
  }

 private:
  // The rows of bf16 keys as they lie, or copied to where they are padded.
  Bf16Rows bf16_rows(std::int64_t first, int keys) {
    const std::uint16_t* rows = static_cast<const std::uint16_t*>(head_.k.data) + first * head_.k.stride;
    const std::int64_t dim = scores_.bf16_dim();
    const bool fits = head_.bf16->exact ? head_.dim % 2 == 0 : keys == kTileKeys && dim == head_.dim;
    if (fits) return {rows, head_.k.stride * 2};
    head_.bf16->copy_rows(rows, head_.k.stride, keys, head_.dim, key_tile16_, dim);
    for (std::int64_t n = keys * dim; n < round_up(keys, 16) * dim; ++n) key_tile16_[n] = 0;
    return {key_tile16_, dim * 2};
  }

  const HeadTask<T>& head_;
  const std::int64_t key_begin_, key_end_;
  Scores<T> scores_;
  std::int64_t next_ = 0;  // the key that the next tile begins with
  T* tile_ = nullptr;
  T* key_tile_ = nullptr;
  std::uint16_t* key_tile16_ = nullptr;  // [kTileKeys][bf16_dim]
};

}  // namespace rapt::inline v1::RAPT_TARGET
