#pragma once

#include "backends/cpu/simd/weights.h"

// One or two queries: lanes of queries would lie idle, so lanes are keys, or numbers of values. The bits are those of the
// wide path, because every sum is made in its order.
namespace rapt::inline v1::RAPT_TARGET {

inline constexpr int kNarrow = 2;

template <class T>
struct FewQueries {
  const T* rows;
  std::ptrdiff_t stride;
  int count;
  int dim;
};

// Each vector of keys waits for its own last sum, so several keep the arithmetic busy. kFetch: a next tile follows.
template <class T, int kVectors, bool kFetch = true>
RAPT_FN void few_dots_of(const FewQueries<T>& queries, const T* rows, std::ptrdiff_t stride, int keys, T* scores,
                         int columns) {
  const Tag<T> tag;
  constexpr int kBlock = 16 / sizeof(T);
  alignas(64) T line[kVectors * kLanes<T>];
  for (int c = 0; c < queries.count; ++c) {
    const T* q = queries.rows + c * queries.stride;
    Vec<T> sum[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(tag);
    const T* ahead = rows + kTileKeys * stride;  // of the next tile, which comes from far away
    int ahead_column = 0;
    int d = 0;
    for (; d + kBlock <= queries.dim; d += kBlock) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Vec<T> numbers[kBlock];
        load_columns<T>(rows + v * kLanes<T> * stride + d, stride, numbers);
#pragma GCC unroll 4
        for (int n = 0; n < kBlock; ++n) sum[v] = hn::MulAdd(numbers[n], hn::Set(tag, q[d + n]), sum[v]);
        for (int n = 0; n < kBlock && kFetch; ++n) {
          __builtin_prefetch(ahead + ahead_column, 0, 2);
          ahead_column += 64 / sizeof(T);
          if (ahead_column < queries.dim) continue;
          ahead_column = 0;
          ahead += stride;
        }
      }
    }
    for (; d < queries.dim; ++d)
      for (int v = 0; v < kVectors; ++v) {
        for (int j = 0; j < kLanes<T>; ++j) line[j] = rows[(v * kLanes<T> + j) * stride + d];
        sum[v] = hn::MulAdd(hn::LoadU(tag, line), hn::Set(tag, q[d]), sum[v]);
      }
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], tag, line + v * kLanes<T>);
    for (int j = 0; j < keys; ++j) scores[j * columns + c] = line[j];
  }
}

// scores [keys][columns], zero past the queries. The buffer holds kLanes rows of `stride` numbers.
template <class T, bool kFetch = true>
void few_dots(const FewQueries<T>& queries, const T* key_rows, std::ptrdiff_t key_stride, int keys, T* buffer,
              T* scores, int columns) {
  constexpr int kVectors = 4;
  const Tag<T> tag;
  for (std::int64_t n = 0; n < static_cast<std::int64_t>(keys) * columns; n += kLanes<T>)
    hn::StoreU(hn::Zero(tag), tag, scores + n);
  if (keys < kLanes<T>) {
    for (int j = 0; j < kLanes<T>; ++j)
      for (int d = 0; d < queries.dim; ++d)
        buffer[j * queries.stride + d] = j < keys ? key_rows[j * key_stride + d] : T(0);
    few_dots_of<T, 1, kFetch>(queries, buffer, queries.stride, keys, scores, columns);
    return;
  }
  int j = 0;
  for (; j + kVectors * kLanes<T> <= keys; j += kVectors * kLanes<T>)
    few_dots_of<T, kVectors, kFetch>(queries, key_rows + j * key_stride, key_stride, kVectors * kLanes<T>,
                                     scores + j * columns, columns);
  for (; j < keys; j += kLanes<T>) {
    const int first = j + kLanes<T> <= keys ? j : keys - kLanes<T>;  // the last lanes may be computed twice
    few_dots_of<T, 1, kFetch>(queries, key_rows + first * key_stride, key_stride, kLanes<T>, scores + first * columns,
                              columns);
  }
}

// Rows of a matrix as they lie, or converted into the buffer.
template <class T>
RAPT_FN const T* rows_at(const MatrixRef& matrix, std::int64_t first, int rows, std::int64_t dim, T* buffer,
                         std::int64_t buffer_stride, std::ptrdiff_t& stride) {
  if (matrix.dtype == dtype_of<T>()) {
    stride = matrix.stride;
    return static_cast<const T*>(matrix.data) + first * matrix.stride;
  }
  stride = buffer_stride;
  load_rows(matrix, first, rows, dim, buffer, buffer_stride);
  return buffer;
}

// One query's scores, [lanes], become weights; −∞ past the keys. Returns what earlier sums are to be multiplied by.
template <class T>
T few_weights(T* line, int keys, int lanes, T slack, T& row_max, T& row_sum) {
  const Tag<T> tag;
  const Vec<T> before = hn::Set(tag, row_max);
  Vec<T> top = before;
  for (int j = 0; j < lanes; j += kLanes<T>) top = hn::Max(hn::LoadU(tag, line + j), top);
  top = hn::MaxOfLanes(tag, top);
  if (hn::GetLane(top) > kLargest<T>) {
    clamp_scores(line, lanes);
    top = hn::Set(tag, kLargest<T>);
  }
  top = follow<T>(before, top, hn::Set(tag, slack));
  const Vec<T> shift = shift_of<T>(top);
  const Vec<T> correction = exp_weight(hn::Sub(before, shift));
  for (int j = 0; j < lanes; j += kLanes<T>)
    hn::StoreU(exp_weight(hn::Sub(hn::LoadU(tag, line + j), shift)), tag, line + j);
  T sum = 0;
  for (int j = 0; j < keys; ++j) sum += line[j];
  row_max = hn::GetLane(top);
  row_sum = hn::GetLane(hn::MulAdd(hn::Set(tag, row_sum), correction, hn::Set(tag, sum)));
  return hn::GetLane(correction);
}

template <class T, int kVectors>
RAPT_FN void few_values_of(T* to, const T* rows, std::ptrdiff_t stride, const T* weights, std::ptrdiff_t step, int keys,
                           bool careful) {
  const Tag<T> tag;
  Vec<T> sum[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(tag);
  for (int j = 0; j < keys; ++j) {
    const T w = weights[j * step];
    if (careful && w == T(0)) continue;
    const T* row = rows + j * stride;
    fetch_rows(row + kTileKeys * stride, 0, 1, kVectors * kLanes<T>);
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

// to [dim, padded] += Σ weights[j·step] · rows[j]; careful: a weight of 0 takes nothing, not even from a NaN. A tile's sum
// is added as a whole, as in the wide product. The line holds kLanes numbers.
template <class T>
void few_values(T* to, const T* rows, std::ptrdiff_t stride, std::int64_t dim, const T* weights, std::ptrdiff_t step,
                int keys, bool careful, T* line) {
  constexpr int kVectors = 4;
  const Tag<T> tag;
  std::int64_t d = 0;
  for (; d + kVectors * kLanes<T> <= dim; d += kVectors * kLanes<T>)
    few_values_of<T, kVectors>(to + d, rows + d, stride, weights, step, keys, careful);
  for (; d + kLanes<T> <= dim; d += kLanes<T>)
    few_values_of<T, 1>(to + d, rows + d, stride, weights, step, keys, careful);
  if (d == dim) return;
  // The rest of the rows in a buffer: past their ends nothing may be read.
  Vec<T> sum = hn::Zero(tag);
  for (int n = 0; n < kLanes<T>; ++n) line[n] = 0;
  for (int j = 0; j < keys; ++j) {
    const T w = weights[j * step];
    if (careful && w == T(0)) continue;
    for (std::int64_t n = d; n < dim; ++n) line[n - d] = rows[j * stride + n];
    sum = hn::MulAdd(hn::LoadU(tag, line), hn::Set(tag, w), sum);
  }
  hn::StoreU(hn::Add(sum, hn::LoadU(tag, to + d)), tag, to + d);
}

}  // namespace rapt::inline v1::RAPT_TARGET
