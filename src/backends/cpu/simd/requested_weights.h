#pragma once

#include "backends/cpu/simd/key_tiles.h"

// Weights that are asked for. While a block goes through its keys their place holds the scores, so that nothing is computed
// twice.
namespace rapt::inline v1::RAPT_TARGET {

// What is asked for of one block of queries, as its columns [begin, end).
template <class T>
struct WeightRows {
  T* first = nullptr;  // of column 0
  std::ptrdiff_t stride = 0;
  int begin = 0, end = 0;

  RAPT_FN WeightRows(const WeightsTask& wanted, std::int64_t first_query, std::int64_t count)
      : first(static_cast<T*>(wanted.out.data) + (first_query - wanted.row_begin) * wanted.out.stride),
        stride(wanted.out.stride) {
    const std::int64_t low = wanted.row_begin - first_query, high = wanted.row_end - first_query;
    begin = static_cast<int>(low < 0 ? 0 : (low < count ? low : count));
    end = static_cast<int>(high < 0 ? 0 : (high < count ? high : count));
  }
  RAPT_FN T* at(int column) const { return first + column * stride; }
};

// The scores of a tile [keys][columns]; keys from kept_until on that no tile had are hidden.
template <class T>
void keep_scores(const WeightRows<T>& rows, const T* tile, int columns, std::int64_t kept_until, std::int64_t first_key,
                 int keys) {
  if (rows.begin >= rows.end) return;
  for (int c = rows.begin; c < rows.end; ++c)
    for (std::int64_t j = kept_until; j < first_key; ++j) rows.at(c)[j] = -kInfinity<T>;
  transpose(tile + rows.begin, columns, keys, rows.end - rows.begin, rows.at(rows.begin) + first_key, rows.stride);
}

// The scores of one row become weights; keys past the last tile have none.
template <class T>
void finish_scores(T* row, std::int64_t kept_until, std::int64_t keys, T row_max, T inverse) {
  const Tag<T> tag;
  const Vec<T> shift = shift_of<T>(hn::Set(tag, row_max));
  const Vec<T> top = hn::Set(tag, kLargest<T>);
  const auto weights = [&](Vec<T> s) {
    const Vec<T> e = exp_weight(hn::Sub(hn::IfThenElse(hn::Gt(s, top), top, s), shift));
    return hn::IfThenZeroElse(hn::Eq(e, hn::Zero(tag)), hn::Mul(e, hn::Set(tag, inverse)));
  };
  std::int64_t j = 0;
  for (; j + kLanes<T> <= kept_until; j += kLanes<T>) hn::StoreU(weights(hn::LoadU(tag, row + j)), tag, row + j);
  if (j < kept_until) {
    alignas(64) T line[kLanes<T>];
    for (int n = 0; n < kLanes<T>; ++n) line[n] = j + n < kept_until ? row[j + n] : T(0);
    hn::StoreU(weights(hn::LoadU(tag, line)), tag, line);
    for (int n = 0; j < kept_until; ++j, ++n) row[j] = line[n];
  }
  for (; j < keys; ++j) row[j] = 0;
}

// Goes through the tiles once more: make(first_key, keys) turns the scores in tiles.tile() into weights, which are stored.
// line holds [columns][kTileKeys].
template <class T, class F>
void store_weights_again(KeyTiles<T>& tiles, const ForwardTask<T>& task, const WeightsTask& wanted, int columns,
                         T* line, F&& make) {
  const WeightRows<T> rows(wanted, task.first_query, task.count);
  if (rows.begin >= rows.end) return;
  const auto store = [&](int column, const T* from, std::int64_t first, std::int64_t keys) {
    MatrixRef to = wanted.out;
    to.data = static_cast<char*>(to.data) + first * static_cast<std::int64_t>(size_of(to.dtype));
    store_row(from, keys < kTileKeys ? keys : kTileKeys, to, task.first_query + column - wanted.row_begin);
  };
  for (int n = 0; n < kTileKeys; ++n) line[n] = 0;
  for (int c = rows.begin; c < rows.end; ++c)
    for (std::int64_t j = 0; j < task.head->keys; j += kTileKeys) store(c, line, j, task.head->keys - j);
  tiles.restart();
  tiles.advance(task.key_end, [&](std::int64_t first, int keys) {
    make(first, keys);
    transpose(tiles.tile(), columns, keys, columns, line, kTileKeys);
    for (int c = rows.begin; c < rows.end; ++c) store(c, line + c * kTileKeys, first, keys);
  });
}

}  // namespace rapt::inline v1::RAPT_TARGET
