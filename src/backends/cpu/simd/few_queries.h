#pragma once

#include "backends/cpu/simd/weights.h"

// Few queries: lanes of queries would lie idle, so lanes are keys, or numbers of values, which all queries share. The bits are
// those of the wide path, because every sum is made in its order.
namespace rapt::inline v1::RAPT_TARGET {

inline constexpr int kNarrow = 8;

template <class T>
struct FewQueries {
  const T* rows;
  std::ptrdiff_t stride;
  int count;
  int padded;  // rows that may be read, of which those past count are not used
  int dim;
};

// Rows that are read as they are stored: T itself, or the bits of bf16 where T is float.
using Bf16Bits = std::uint16_t;

struct Bf16Pieces {
  const Bf16Bits* rows;
  std::ptrdiff_t stride;
  // Words of two numbers, moved about as if they were floats; wherever they lie.
  RAPT_FN const float* at(int row) const { return reinterpret_cast<const float*>(rows + row * stride); }
};

// The numbers of the first 16 bytes of kLanes rows: vector n holds number n of each row.
template <class T, class S>
RAPT_FN void load_stored_columns(const S* rows, std::ptrdiff_t stride, Vec<T>* numbers) {
  if constexpr (std::is_same_v<S, T>) {
    load_columns<T>(rows, stride, numbers);
  } else {
    const hn::Rebind<std::uint32_t, Tag<float>> bits;
    Vec<float> words[4];
    load_columns<float>(Bf16Pieces{rows, stride}, words);
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) {
      const auto word = hn::BitCast(bits, words[n]);
      numbers[2 * n] = hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(word));
      numbers[2 * n + 1] = hn::BitCast(Tag<float>(), hn::And(word, hn::Set(bits, 0xffff0000U)));
    }
  }
}

template <class T, class S>
RAPT_FN T stored_number(S x) {
  if constexpr (std::is_same_v<S, T>) return x;
  else return to_float(BFloat16{x});
}

template <class T, class S>
RAPT_FN Vec<T> load_stored(const S* from) {
  if constexpr (std::is_same_v<S, T>) {
    return hn::LoadU(Tag<T>(), from);
  } else {
    const hn::Rebind<std::uint16_t, Tag<float>> narrow;
    const hn::Rebind<std::uint32_t, Tag<float>> wide;
    return hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, from))));
  }
}

// kVectors vectors of keys against the kQueries queries from `first` on: a key's numbers are transposed once for all of them,
// and eight sums at a time keep the arithmetic busy. kFetch: a next tile follows in memory.
template <class T, class S, int kQueries, bool kFetch, int kVectors = kQueries >= 8 ? 1 : 8 / kQueries>
RAPT_FN void few_dots_of(const FewQueries<T>& queries, int first, const S* rows, std::ptrdiff_t stride, int keys,
                         T* scores, int columns) {
  const Tag<T> tag;
  constexpr int kBlock = 16 / sizeof(S);
  constexpr int kLines = kLanes<T> * 16 / 64;
  alignas(64) T line[kVectors * kLanes<T>];
  const T* const q = queries.rows + first * queries.stride;
  Vec<T> sum[kQueries][kVectors];
  for (auto& of_query : sum)
    for (Vec<T>& x : of_query) x = hn::Zero(tag);
  const S* ahead = rows + kTileKeys * stride;  // of the next tile, which comes from far away
  int ahead_column = 0;
  int d = 0;
  for (; d + kBlock <= queries.dim; d += kBlock) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Vec<T> numbers[kBlock];
      load_stored_columns<T, S>(rows + v * kLanes<T> * stride + d, stride, numbers);
#pragma GCC unroll 8
      for (int n = 0; n < kBlock; ++n)
#pragma GCC unroll 8
        for (int c = 0; c < kQueries; ++c)
          sum[c][v] = hn::MulAdd(numbers[n], hn::Set(tag, q[c * queries.stride + d + n]), sum[c][v]);
      for (int n = 0; n < (kLines > 0 ? kLines : 1) && kFetch; ++n) {
        __builtin_prefetch(ahead + ahead_column, 0, 2);
        ahead_column += 64 / sizeof(S);
        if (ahead_column < queries.dim) continue;
        ahead_column = 0;
        ahead += stride;
      }
    }
  }
  for (; d < queries.dim; ++d)
    for (int v = 0; v < kVectors; ++v) {
      for (int j = 0; j < kLanes<T>; ++j) line[j] = stored_number<T, S>(rows[(v * kLanes<T> + j) * stride + d]);
      const Vec<T> numbers = hn::LoadU(tag, line);
      for (int c = 0; c < kQueries; ++c)
        sum[c][v] = hn::MulAdd(numbers, hn::Set(tag, q[c * queries.stride + d]), sum[c][v]);
    }
  for (int c = 0; c < kQueries && first + c < queries.count; ++c) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[c][v], tag, line + v * kLanes<T>);
    for (int j = 0; j < keys; ++j) scores[j * columns + first + c] = line[j];
  }
}

// All keys of a tile, or a vector of them, against the kQueries queries from `first` on.
template <class T, class S, int kQueries, bool kFetch>
void few_dots_from(const FewQueries<T>& queries, int first, const S* key_rows, std::ptrdiff_t key_stride, int keys,
                   T* scores, int columns) {
  constexpr int kVectors = kQueries >= 8 ? 1 : 8 / kQueries;
  if (keys < kLanes<T>)
    return few_dots_of<T, S, kQueries, false, 1>(queries, first, key_rows, key_stride, keys, scores, columns);
  int j = 0;
  for (; j + kVectors * kLanes<T> <= keys; j += kVectors * kLanes<T>)
    few_dots_of<T, S, kQueries, kFetch>(queries, first, key_rows + j * key_stride, key_stride, kVectors * kLanes<T>,
                                        scores + j * columns, columns);
  for (; j < keys; j += kLanes<T>) {
    const int from = j + kLanes<T> <= keys ? j : keys - kLanes<T>;  // the last lanes may be computed twice
    few_dots_of<T, S, kQueries, kFetch, 1>(queries, first, key_rows + from * key_stride, key_stride, kLanes<T>,
                                           scores + from * columns, columns);
  }
}

// scores [keys][columns], zero past the queries. The buffer holds kLanes rows of `stride` numbers. kFetch: the rows are the
// caller's own, and the next tile's follow them.
template <class T, bool kFetch, class S>
void few_dots(const FewQueries<T>& queries, const S* key_rows, std::ptrdiff_t key_stride, int keys, S* buffer,
              T* scores, int columns) {
  const Tag<T> tag;
  for (std::int64_t n = 0; n < static_cast<std::int64_t>(keys) * columns; n += kLanes<T>)
    hn::StoreU(hn::Zero(tag), tag, scores + n);
  if (keys < kLanes<T>) {
    for (int j = 0; j < kLanes<T>; ++j)
      for (int d = 0; d < queries.dim; ++d)
        buffer[j * queries.stride + d] = j < keys ? key_rows[j * key_stride + d] : S(0);
    key_rows = buffer;
    key_stride = queries.stride;
  }
  for (int first = 0; first < queries.count;) {
    const int left = queries.count - first, readable = queries.padded - first;
    const auto take = [&]<int kQueries>() {
      // What comes next is asked for once.
      if (kFetch && first == 0)
        few_dots_from<T, S, kQueries, kFetch>(queries, first, key_rows, key_stride, keys, scores, columns);
      else few_dots_from<T, S, kQueries, false>(queries, first, key_rows, key_stride, keys, scores, columns);
      first += kQueries;
    };
    if (left > 4 && readable >= 8) take.template operator()<8>();
    else if (left > 2 && readable >= 4) take.template operator()<4>();
    else if (left > 1) take.template operator()<2>();
    else take.template operator()<1>();
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
T few_weights(T* line, int lanes, T slack, T& row_max) {
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
  for (int j = 0; j < lanes; j += kLanes<T>)
    hn::StoreU(exp_weight(hn::Sub(hn::LoadU(tag, line + j), shift)), tag, line + j);
  row_max = hn::GetLane(top);
  return hn::GetLane(exp_weight(hn::Sub(before, shift)));
}

template <class T>
RAPT_FN T add_to_sum(T row_sum, T correction, T of_tile) {
  const Tag<T> tag;
  return hn::GetLane(hn::MulAdd(hn::Set(tag, row_sum), hn::Set(tag, correction), hn::Set(tag, of_tile)));
}

// row_sum[c] = row_sum[c]·correction[c] + Σ weights[c][j], each key after the one before it: several queries at a time, since
// every sum waits for its own last one.
template <class T>
void few_sums(const T* weights, std::ptrdiff_t stride, int count, int keys, const T* correction, T* row_sum) {
  int c = 0;
  for (; c + 4 <= count; c += 4) {
    const T* const w = weights + c * stride;
    T sum[4] = {};
    for (int j = 0; j < keys; ++j) {
#pragma GCC unroll 4
      for (int n = 0; n < 4; ++n) sum[n] += w[n * stride + j];
    }
    for (int n = 0; n < 4; ++n) row_sum[c + n] = add_to_sum(row_sum[c + n], correction[c + n], sum[n]);
  }
  for (; c < count; ++c) {
    T sum = 0;
    for (int j = 0; j < keys; ++j) sum += weights[c * stride + j];
    row_sum[c] = add_to_sum(row_sum[c], correction[c], sum);
  }
}

// Where kQueries rows of sums begin, and the weights that go into each: number j of row c is at weights[j·step + c·row_step].
template <class T>
struct FewSums {
  T* to;
  std::ptrdiff_t to_stride;
  const T* weights;
  std::ptrdiff_t step, row_step;
};

template <class T, class S, int kQueries, int kVectors>
RAPT_FN void few_values_of(const FewSums<T>& sums, const S* rows, std::ptrdiff_t stride, int keys, bool careful,
                           bool fetch) {
  const Tag<T> tag;
  Vec<T> sum[kQueries][kVectors];
  for (auto& of_query : sum)
    for (Vec<T>& x : of_query) x = hn::Zero(tag);
  for (int j = 0; j < keys; ++j) {
    const T* const w = sums.weights + j * sums.step;
    if (kQueries == 1 && careful && *w == T(0)) continue;
    const S* row = rows + j * stride;
    if (fetch) fetch_rows(row + kTileKeys * stride, 0, 1, kVectors * kLanes<T>);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Vec<T> value = load_stored<T, S>(row + v * kLanes<T>);
#pragma GCC unroll 4
      for (int c = 0; c < kQueries; ++c) sum[c][v] = hn::MulAdd(value, hn::Set(tag, w[c * sums.row_step]), sum[c][v]);
    }
  }
  for (int c = 0; c < kQueries; ++c)
    for (int v = 0; v < kVectors; ++v) {
      T* place = sums.to + c * sums.to_stride + v * kLanes<T>;
      hn::StoreU(hn::Add(sum[c][v], hn::LoadU(tag, place)), tag, place);
    }
}

// The numbers of all rows that fill vectors. Returns how many they are.
template <class T, class S, int kQueries>
std::int64_t few_values_from(FewSums<T> sums, const S* rows, std::ptrdiff_t stride, std::int64_t dim, int keys,
                             bool careful, bool fetch) {
  constexpr int kVectors = kQueries >= 4 ? 2 : 4;
  std::int64_t d = 0;
  for (; d + kVectors * kLanes<T> <= dim; d += kVectors * kLanes<T>, sums.to += kVectors * kLanes<T>)
    few_values_of<T, S, kQueries, kVectors>(sums, rows + d, stride, keys, careful, fetch);
  for (; d + kLanes<T> <= dim; d += kLanes<T>, sums.to += kLanes<T>)
    few_values_of<T, S, kQueries, 1>(sums, rows + d, stride, keys, careful, fetch);
  return d;
}

// to [count][dim, padded] += Σ weights[j] · rows[j]; careful: a weight of 0 takes nothing, not even from a NaN. A tile's sum
// is added as a whole, as in the wide product. The line holds kLanes numbers. fetch: as kFetch of few_dots().
template <class T, class S>
void few_values(const FewSums<T>& sums, int count, const S* rows, std::ptrdiff_t stride, std::int64_t dim, int keys,
                bool careful, bool fetch, T* line) {
  const Tag<T> tag;
  std::int64_t d = 0;
  for (int first = 0; first < count;) {
    FewSums<T> own = sums;
    own.to += first * sums.to_stride;
    own.weights += first * sums.row_step;
    const bool asks = fetch && first == 0;
    const int left = careful ? 1 : count - first;
    if (left >= 4) d = few_values_from<T, S, 4>(own, rows, stride, dim, keys, careful, asks);
    else if (left >= 2) d = few_values_from<T, S, 2>(own, rows, stride, dim, keys, careful, asks);
    else d = few_values_from<T, S, 1>(own, rows, stride, dim, keys, careful, asks);
    first += left >= 4 ? 4 : left >= 2 ? 2 : 1;
  }
  if (d == dim) return;
  // The rest of the rows in a buffer: past their ends nothing may be read.
  for (int c = 0; c < count; ++c) {
    Vec<T> sum = hn::Zero(tag);
    for (int n = 0; n < kLanes<T>; ++n) line[n] = 0;
    for (int j = 0; j < keys; ++j) {
      const T w = sums.weights[j * sums.step + c * sums.row_step];
      if (careful && w == T(0)) continue;
      for (std::int64_t n = d; n < dim; ++n) line[n - d] = stored_number<T, S>(rows[j * stride + n]);
      sum = hn::MulAdd(hn::LoadU(tag, line), hn::Set(tag, w), sum);
    }
    T* const to = sums.to + c * sums.to_stride + d;
    hn::StoreU(hn::Add(sum, hn::LoadU(tag, to)), tag, to);
  }
}

}  // namespace rapt::inline v1::RAPT_TARGET
