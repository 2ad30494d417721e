#pragma once

#include "backends/cpu/simd/output_table.h"
#include "backends/cpu/simd/scores.h"

// Weights times values of a block of queries, added up tile by tile.
namespace rapt::inline v1::RAPT_TARGET {

// The weights of a tile as value_sums reads them: number j of column c is at weights[j·key_step + c·column_step].
template <class T>
struct TileWeights {
  const T* weights = nullptr;
  std::ptrdiff_t key_step = 0, column_step = 1;
};

template <class T>
class ValueSums {
 public:
  ValueSums(Arena& arena, const ForwardTask<T>& task, int columns)
      : head_(*task.head),
        first_query_(task.first_query),
        count_(static_cast<int>(task.count)),
        columns_(columns),
        narrow_(head_.queries <= kNarrow && !head_.bf16),
        wanted_(task.out != nullptr),
        table_(arena, head_, columns) {
    sums_ = arena.take<T*>(head_.sets);
    std::int64_t widest = kTileKeys;
    for (int s = 0; s < head_.sets; ++s) {
      T* sum = arena.take<T>(size(s));
      if (sums_) sums_[s] = sum;
      widest = head_.value_dim[s] > widest ? head_.value_dim[s] : widest;
    }
    line_ = arena.take<T>(widest + kLanes<T>);
    if (head_.bf16) weight_bf16_ = arena.take<std::uint32_t>(kTileKeys / 2 * columns_);
    if (head_.bf16 && !head_.transposed_v)
      own_transposed_ = arena.take<std::uint16_t>(kTileKeys * round_up(widest, 16));
    value_tile_ = arena.take<T>(kTileKeys * padded<T>(widest));
  }

  bool narrow() const { return narrow_; }

  void clear() {
    const Tag<T> tag;
    for (int s = 0; s < head_.sets; ++s)
      for (std::int64_t n = 0; n < size(s); n += kLanes<T>) hn::StoreU(hn::Zero(tag), tag, sums_[s] + n);
    table_.clear();
  }

  // The sums of two objects of one task.
  void swap(ValueSums& other) {
    exchange(sums_, other.sums_);
    table_.swap(other.table_);
  }

  // Of one column.
  bool finite(int column) const {
    T rest = 0;
    for (int s = 0; s < head_.sets; ++s)
      for (std::int64_t d = 0; d < head_.value_dim[s]; ++d)
        rest +=
            T(0) * (narrow_ ? sums_[s][column * padded<T>(head_.value_dim[s]) + d] : sums_[s][d * columns_ + column]);
    return rest == T(0);
  }

  bool finite() const {
    bool finite = true;

    for (int s = 0; s < head_.sets; ++s) finite = finite && all_finite(sums_[s], size(s));
    return finite && table_.finite();
  }

  // careful: a weight of 0 takes nothing of a value, not even a NaN.
  void add(const Scores<T>& scores, const TileWeights<T>& tile, std::int64_t first, int keys, bool careful) {
    if (!wanted_) return;
    if constexpr (std::is_same_v<T, float>)
      if (head_.bf16 && !careful)
        head_.bf16->round_to_bf16(tile.weights, keys, columns_, columns_,
                                  head_.bf16->exact ? round_up(keys, 2) : kTileKeys, weight_bf16_);
    for (int s = 0; s < head_.sets; ++s) add_set(scores, tile, s, first, keys, careful);
    table_.add(first_query_, count_, tile.weights, tile.key_step, tile.column_step, first, keys);
  }

  void rescale(const T* factor) {
    const Tag<T> tag;
    table_.rescale(factor);
    if (narrow_) {
      for (int c = 0; c < count_; ++c) rescale_row(c, factor[c]);
      return;
    }
    for (int s = 0; s < head_.sets; ++s)
      for (std::int64_t d = 0; d < head_.value_dim[s]; ++d)
        for (int c = 0; c < columns_; c += kLanes<T>) {
          T* o = sums_[s] + d * columns_ + c;
          hn::StoreU(hn::Mul(hn::LoadU(tag, o), hn::LoadU(tag, factor + c)), tag, o);
        }
  }

  // this = this·own + other·others, for every column.
  void merge(const ValueSums& other, const T* own, const T* others) {
    const Tag<T> tag;
    table_.merge(other.table_, own, others);
    for (int s = 0; s < head_.sets; ++s) {
      const std::int64_t pad = padded<T>(head_.value_dim[s]);
      if (narrow_) {
        for (int c = 0; c < count_; ++c)
          merge_row(sums_[s] + c * pad, other.sums_[s] + c * pad, pad, own[c], others[c]);
        continue;
      }
      for (std::int64_t d = 0; d < head_.value_dim[s]; ++d)
        for (int c = 0; c < columns_; c += kLanes<T>) {
          T* o = sums_[s] + d * columns_ + c;
          const Vec<T> part = hn::Mul(hn::LoadU(tag, other.sums_[s] + d * columns_ + c), hn::LoadU(tag, others + c));
          hn::StoreU(hn::MulAdd(hn::LoadU(tag, o), hn::LoadU(tag, own + c), part), tag, o);
        }
    }
  }

  static void merge_row(T* to, const T* from, std::int64_t count, T own, T others) {
    const Tag<T> tag;
    std::int64_t d = 0;
    for (; d + kLanes<T> <= count; d += kLanes<T>)
      hn::StoreU(hn::MulAdd(hn::LoadU(tag, to + d), hn::Set(tag, own),
                            hn::Mul(hn::LoadU(tag, from + d), hn::Set(tag, others))),
                 tag, to + d);
    const hn::CappedTag<T, 1> one;
    for (; d < count; ++d)
      hn::StoreU(hn::MulAdd(hn::LoadU(one, to + d), hn::Set(one, own),
                            hn::Mul(hn::LoadU(one, from + d), hn::Set(one, others))),
                 one, to + d);
  }

  // Writes sums·factor, a number for each column, to out [sets].
  void store(const MatrixRef* out, const T* factor) {
    if (!wanted_) return;
    rescale(factor);
    for (int s = 0; s < head_.sets; ++s) {
      const std::int64_t dim = head_.value_dim[s];
      if (!narrow_ && out[s].dtype == dtype_of<T>() && !table_.given()) {
        T* to = static_cast<T*>(out[s].data) + first_query_ * out[s].stride;
        transpose(sums_[s], columns_, dim, count_, to, out[s].stride);
        continue;
      }
      if (!narrow_ && !table_.given()) {
        const std::int64_t pad = padded<T>(dim);
        transpose(sums_[s], columns_, dim, count_, value_tile_, pad);
        for (int c = 0; c < count_; ++c) store_row(value_tile_ + c * pad, dim, out[s], first_query_ + c);
        continue;
      }
      for (int c = 0; c < count_; ++c) {
        const T* from = narrow_ ? sums_[s] + c * padded<T>(dim) : sums_[s] + c;
        const std::ptrdiff_t step = narrow_ ? 1 : columns_;
        for (std::int64_t d = 0; d < dim; ++d) line_[d] = from[d * step];
        table_.add_to_row(c, dim, line_);
        store_row(line_, dim, out[s], first_query_ + c);
      }
    }
  }

  // A row of one value set, taken as it is, or a NaN.
  void store_value(const MatrixRef* out, int column, std::int64_t key, T nothing) {
    for (int s = 0; s < head_.sets && wanted_; ++s) {
      const std::int64_t dim = head_.value_dim[s];
      if (key >= 0) load_row(head_.v[s], key, dim, line_);
      for (std::int64_t d = 0; d < dim; ++d) line_[d] = key >= 0 ? line_[d] : nothing;
      if (key >= 0) table_.add_one(first_query_ + column, key, dim, line_);
      store_row(line_, dim, out[s], first_query_ + column);
    }
  }

 private:
  // Sums lie transposed, [value_dim][columns]; those of a narrow block as rows.
  std::int64_t size(int set) const {
    if (narrow_) return kNarrow * padded<T>(head_.value_dim[set]);
    return (head_.bf16 ? round_up(head_.value_dim[set], 16) : head_.value_dim[set]) * columns_;
  }

  // As the product, to the bit, but where a weight is 0 its value is not looked at.
  void add_seen(const T* weights, const T* rows, std::ptrdiff_t stride, int keys, std::int64_t dim, T* sum) const {
    const Tag<T> tag;
    for (std::int64_t d = 0; d < dim; ++d)
      for (int c = 0; c < columns_; c += kLanes<T>) {
        Vec<T> of_tile = hn::Zero(tag);
        for (int j = 0; j < keys; ++j) {
          const Vec<T> w = hn::LoadU(tag, weights + static_cast<std::ptrdiff_t>(j) * columns_ + c);
          const Vec<T> more = hn::MulAdd(hn::Set(tag, rows[j * stride + d]), w, of_tile);
          of_tile = hn::IfThenElse(hn::Eq(w, hn::Zero(tag)), of_tile, more);
        }
        T* const to = sum + d * columns_ + c;
        hn::StoreU(hn::Add(of_tile, hn::LoadU(tag, to)), tag, to);
      }
  }

  void rescale_row(int c, T factor) {
    for (int s = 0; s < head_.sets; ++s)
      for (std::int64_t d = 0; d < padded<T>(head_.value_dim[s]); ++d)
        sums_[s][c * padded<T>(head_.value_dim[s]) + d] *= factor;
  }

  void add_set(const Scores<T>& scores, const TileWeights<T>& tile, int set, std::int64_t first, int keys,
               bool careful) {
    const std::int64_t dim = head_.value_dim[set];
    T* sum = sums_[set];
    if constexpr (std::is_same_v<T, float>)
      if (head_.bf16 && !careful) {
        const std::int64_t width = round_up(dim, 16);
        if (!head_.transposed_v)
          head_.bf16->arrange_columns(
              static_cast<const std::uint16_t*>(head_.v[set].data) + first * head_.v[set].stride, head_.v[set].stride,
              keys, dim, width, own_transposed_);
        const bool exact = head_.bf16->exact;
        head_.bf16->product({.m = exact ? dim : width,
                             .n = columns_,
                             .k = exact ? (keys + 1) / 2 : kTileKeys / 2,
                             .a = head_.transposed_v ? head_.transposed_v[set] + first * width : own_transposed_,
                             .a_row = exact ? 4 : kTileKeys * 2,
                             .a_step = exact ? width * 4 : 4,
                             .b = weight_bf16_,
                             .b_row = columns_,
                             .c = sum,
                             .c_row = columns_,
                             .accumulate = true});
        return;
      }
    const MatrixRef& v = head_.v[set];
    const FewSums<T> few{sum, padded<T>(dim), tile.weights, tile.key_step, tile.column_step};
    if constexpr (std::is_same_v<T, float>)
      if (narrow_ && v.dtype == Dtype::bf16) {
        const auto* rows = static_cast<const Bf16Bits*>(v.data) + first * v.stride;
        few_values<T>(few, count_, rows, v.stride, dim, keys, careful, true, line_);
        return;
      }
    std::ptrdiff_t stride = 0;
    const T* rows = rows_at(v, first, keys, dim, value_tile_, padded<T>(dim), stride);
    if (narrow_) {
      few_values<T>(few, count_, rows, stride, dim, keys, careful, v.dtype == dtype_of<T>(), line_);
      return;
    }
    if (careful) {
      add_seen(tile.weights, rows, stride, keys, dim, sum);
      return;
    }

    for (int c = 0; c < columns_; c += kStrip<T>) {
      const Strip strip = scores.strip_at(c);
      if (strip.begin == strip.end) continue;
      product<T>({.m = dim,
                  .n = strip.columns,
                  .k = strip.end - strip.begin,
                  .a = rows + strip.begin * stride,
                  .a_row = 1,
                  .a_col = stride,
                  .b = tile.weights + strip.begin * columns_ + c,
                  .b_row = columns_,
                  .c = sum + c,
                  .c_row = columns_,
                  .accumulate = true});
    }
  }

  const HeadTask<T>& head_;
  const std::int64_t first_query_;
  const int count_, columns_;
  const bool narrow_, wanted_;
  OutputTableSums<T> table_;
  T** sums_ = nullptr;  // [sets]
  T* line_ = nullptr;
  std::uint32_t* weight_bf16_ = nullptr;     // [kTileKeys / 2][columns]
  std::uint16_t* own_transposed_ = nullptr;  // a tile of values, where they were not arranged before
  T* value_tile_ = nullptr;  // rows of a tile of values, or at the end of outputs, where their type is another
};

}  // namespace rapt::inline v1::RAPT_TARGET
