#pragma once

#include "backends/cpu/simd/few_queries.h"
#include "backends/cpu/simd/pair_forms.h"
#include "backends/cpu/simd/relative.h"
#include "backends/cpu/simd/score_bias.h"

// The scores of one tile, keys × queries, in the order: raw, score, softcap, bias, masks. Forward and backward share it.
namespace rapt::inline v1::RAPT_TARGET {

// Queries of a tile; fewer where there are fewer queries.
template <class T>
inline constexpr int kMostColumns = most_columns(kLanes<T>);
template <class T>
RAPT_FN int columns_for(std::int64_t queries) {
  return static_cast<int>(queries < kMostColumns<T> ? padded<T>(queries) : kMostColumns<T>);
}

// The columns that one pass of the product serves. At the edge of a mask each strip is cut to the keys it sees.
template <class T>
inline constexpr int kStrip = 2 * kLanes<T>;

// Rows of bf16 keys: for bf16 products padded to kTileKeys rows and to 16 words of two numbers unless those are exact, for
// few queries as they lie; data null: there are none.
struct Bf16Rows {
  const void* data = nullptr;
  std::ptrdiff_t row_bytes = 0;
};

struct Strip {
  int column, columns;
  int begin, end;  // rows of the tile
};

template <class T>
class Scores {
 public:
  // `chunk_keys`: how many keys the gradients of one task are of; 0: there are none.
  Scores(Arena& arena, const HeadTask<T>& head, int columns, std::int64_t chunk_keys) : head_(head), columns_(columns) {
    const bool backward = chunk_keys > 0;
    dim_pad_ = padded<T>(head.dim);
    relative_pad_ = padded<T>(head.relative_dim);
    q_rows_ = arena.take<T>(columns_ * dim_pad_);
    q_columns_ = arena.take<T>(head.dim * columns_);
    if (head.fast) forms_.allocate(arena, head, columns_);
    if (head.queries <= kNarrow) few_rows_ = arena.take<T>(kLanes<T> * dim_pad_);
    if (head.bf16) {
      bf16_dim_ = round_up(head.dim, 32);
      q_rows16_ = arena.take<std::uint16_t>(columns_ * bf16_dim_);
      q_bf16_ = arena.take<std::uint32_t>(bf16_dim_ / 2 * columns_);
    }
    begin_ = arena.take<std::int64_t>(columns_);
    end_ = arena.take<std::int64_t>(columns_);
    low_ = arena.take<T>(columns_);
    high_ = arena.take<T>(columns_);
    bias_.allocate(arena, head.bias, columns_);
    if (backward && needs_raw_copy()) raw_ = arena.take<T>(kTileKeys * columns_);
    if (backward && head.softcap > 0) slopes_ = arena.take<T>(kTileKeys * columns_);
    if (has_relative_vectors()) {
      r_rows_ = arena.take<T>(columns_ * relative_pad_);
      r_columns_ = arena.take<T>(head.relative_dim * columns_);
    }
    if (head.grid) {
      query_row_ = arena.take<T>(columns_);
      query_col_ = arena.take<T>(columns_);
      key_row_ = arena.take<T>(kTileKeys);
      key_col_ = arena.take<T>(kTileKeys);
      key_row_index_ = arena.take<std::int32_t>(kTileKeys);
      key_col_index_ = arena.take<std::int32_t>(kTileKeys);
    }
    for (int s = 0; s < head.slots; ++s)
      if (head.relative[s].table) slots_[s].allocate(arena, head, head.relative[s], kTileKeys, columns, chunk_keys);
  }

  // The plain product with the scale folded into the queries: no hook touches the scores.
  bool folds_scale() const { return !head_.program->score && !head_.program->raw; }
  // Keys of 16 bits are read where they lie.
  bool reads_bf16() const {
    return std::is_same_v<T, float> && !head_.bf16 && head_.content && !head_.program->raw &&
           head_.queries <= kNarrow && head_.k.dtype == Dtype::bf16;
  }
  bool needs_raw_copy() const { return head_.program->score != nullptr; }
  bool has_relative_vectors() const {
    for (int s = 0; s < head_.slots; ++s)
      if (head_.relative[s].table && head_.relative[s].role == Role::relative_vector) return true;
    return false;
  }

  // Which keys the queries of the next block see.
  void set_visible(std::int64_t first, int count) {
    first_query_ = first;
    count_ = count;
    // Hooks and tables take all columns of a tile; plain products leave out what would be padding alone.
    const bool all = !folds_scale() || head_.slots > 0 || head_.output_table.table;
    live_ = all ? columns_ : static_cast<int>(padded<T>(count));
    head_.visibility->ranges(head_.b, first, count, begin_, end_);
    first_key_ = head_.keys;
    last_key_ = 0;
    full_begin_ = 0;
    full_end_ = head_.keys;
    for (int c = 0; c < count; ++c) {
      if (begin_[c] < end_[c]) {
        first_key_ = begin_[c] < first_key_ ? begin_[c] : first_key_;
        last_key_ = end_[c] > last_key_ ? end_[c] : last_key_;
      }
      full_begin_ = begin_[c] > full_begin_ ? begin_[c] : full_begin_;
      full_end_ = end_[c] < full_end_ ? end_[c] : full_end_;
    }
    for (int c = count; c < columns_; ++c) {
      begin_[c] = begin_[count - 1];
      end_[c] = end_[count - 1];
    }
    position_ = head_.first_key + head_.query_shift + first;
  }

  // The rows of the block that set_visible() was called with.
  void load_queries() {
    query_factor_ = folds_scale() ? head_.scale : T(1);
    if (head_.bf16) {
      query_factor_ = set_query_bf16(query_factor_);
    } else {
      if (head_.plain_q.data) {
        load_q_rows(head_.plain_q);
        transpose(q_rows_, dim_pad_, columns_, head_.dim, forms_.columns(), columns_);
        forms_.set_queries(first_query_, count_);
      }
      fill_q_rows();
      transpose(q_rows_, dim_pad_, columns_, head_.dim, q_columns_, columns_);
    }
    if (r_rows_) {
      load_rows(head_.q_relative, first_query_, count_, head_.relative_dim, r_rows_, relative_pad_);
      clear_rows(r_rows_, relative_pad_);
      transpose(r_rows_, relative_pad_, columns_, head_.relative_dim, r_columns_, columns_);
    }
    if (head_.grid)
      for (int c = 0; c < columns_; ++c) {
        const std::int64_t position = position_ + (c < count_ ? c : count_ - 1);
        const std::int64_t i = position < 0 ? 0 : position;  // such a query sees nothing
        query_row_[c] = static_cast<T>(i / head_.grid_cols);
        query_col_[c] = static_cast<T>(i % head_.grid_cols);
      }
    for (int s = 0; s < head_.slots; ++s)
      if (head_.relative[s].table)
        slots_[s].set_queries(first_query_ + head_.query_shift, first_key_, last_key_, r_rows_, r_columns_, query_row_,
                              query_col_);
  }

  // load_queries() does it but for bf16 products, which do not read them.
  void fill_q_rows() {
    load_q_rows(head_.q);
    if (query_factor_ != T(1))
      for (std::int64_t n = 0; n < count_ * dim_pad_; ++n) q_rows_[n] *= query_factor_;
  }

  // The keys that any query of the block sees: [first_key, last_key).
  std::int64_t first_key() const { return first_key_; }
  std::int64_t last_key() const { return last_key_; }

  // Asked before each tile; where its own hook shows all of it, hiding is skipped.
  Visible visible(std::int64_t first, int keys) {
    visible_ = Visible::some;
    if (first >= last_key_ || first + keys <= first_key_) return Visible::none;
    if (!head_.program->visible_tile) return Visible::some;
    ScoreTile<T> tile = head_.score_tile;
    tile.keys = keys;
    tile.columns = count_;
    tile.first_query = position_;
    tile.first_key = head_.first_key + first;
    tile.values = head_.values;
    return visible_ = head_.program->visible_tile(tile);
  }

  // The tile that strips are asked of; tile() sets it too.
  void set_tile(std::int64_t first, int keys) {
    tile_first_ = first;
    tile_keys_ = keys;
  }

  // Every query sees the whole tile.
  bool is_whole() const { return full_begin_ <= tile_first_ && tile_first_ + tile_keys_ <= full_end_; }

  // The rows of the current tile that some query of a strip of columns may see.
  Strip strip_at(int column) const {
    const int columns = live_ - column < kStrip<T> ? live_ - column : kStrip<T>;
    Strip strip{column, columns, 0, tile_keys_};
    if (is_whole()) return strip;
    std::int64_t begin = tile_keys_;
    std::int64_t end = 0;
    for (int c = column; c < column + columns; ++c) {
      if (begin_[c] >= end_[c]) continue;
      begin = begin_[c] - tile_first_ < begin ? begin_[c] - tile_first_ : begin;
      end = end_[c] - tile_first_ > end ? end_[c] - tile_first_ : end;
    }
    strip.begin = static_cast<int>(begin < 0 ? 0 : begin);
    strip.end = static_cast<int>(end > tile_keys_ ? tile_keys_ : end);
    if (strip.begin >= strip.end) strip.begin = strip.end = 0;
    return strip;
  }

  // Rows that a strip does not see.
  void clear_outside(T* tile, const Strip& strip) const {
    const Tag<T> tag;
    for (int j = 0; j < tile_keys_; ++j) {
      if (j == strip.begin && strip.begin < strip.end) j = strip.end;
      if (j >= tile_keys_) return;
      for (int c = 0; c < strip.columns; c += kLanes<T>)
        hn::StoreU(hn::Zero(tag), tag, tile + j * columns_ + strip.column + c);
    }
  }

  // scores [keys][columns] of the keys first … first+keys−1, whose rows are given.
  void tile(std::int64_t first, int keys, const T* key_rows, std::ptrdiff_t key_stride, T* scores,
            const Bf16Rows& bf16_rows = {}) {
    tile_first_ = first;
    tile_keys_ = keys;
    bias_.set_tile(first_query_, count_, first, keys);
    const std::int64_t count = static_cast<std::int64_t>(keys) * columns_;
    if (!head_.content) {
      for (std::int64_t n = 0; n < count; ++n) scores[n] = 0;
    } else if (head_.program->raw) {
      PairTile<T> pairs = pair_tile(keys, key_rows, key_stride);
      pairs.scores = scores;
      if (head_.fast) forms_.score(pairs, first);
      else head_.program->raw(pairs);
    } else if (head_.bf16 && bf16_rows.data) {
      bf16_scores(keys, bf16_rows, scores);
    } else if (head_.queries <= kNarrow) {
      few_scores(keys, key_rows, key_stride, bf16_rows, scores);
    } else {
      for (int c = 0; c < live_; c += kStrip<T>) {
        const Strip strip = strip_at(c);
        clear_outside(scores, strip);
        product<T>({.m = strip.end - strip.begin,
                    .n = strip.columns,
                    .k = head_.dim,
                    .a = key_rows + strip.begin * key_stride,
                    .a_row = key_stride,
                    .a_col = 1,
                    .b = q_columns_ + c,
                    .b_row = columns_,
                    .c = scores + strip.begin * columns_ + c,
                    .c_row = columns_,
                    .accumulate = false});
      }
    }
    if (head_.program->score) {
      if (raw_)
        for (std::int64_t n = 0; n < count; ++n) raw_[n] = scores[n];
      head_.program->score(score_tile(scores));
    } else if (head_.program->raw && head_.scale != T(1)) {
      for (std::int64_t n = 0; n < count; ++n) scores[n] *= head_.scale;
    }
    if (head_.program->score || head_.program->raw) clear_padding(scores);
    if (head_.softcap > 0) cap(scores, count);
    bias_.add(scores);
    hide(scores);
  }

  // ∂scores → ∂raw in place, with the gradients of bias and slots. dr_rows [columns][relative_pad] is added to.
  void tile_backward(T* grads, T* dbias, std::ptrdiff_t dbias_stride, std::int64_t dbias_first, T* dr_rows,
                     double* value_grads) {
    const std::int64_t count = static_cast<std::int64_t>(tile_keys_) * columns_;
    if (dbias) bias_.add_grad(grads, dbias + (tile_first_ - dbias_first), dbias_stride);
    if (head_.softcap > 0) uncap(grads, count);
    if (!head_.program->score) {
      if (head_.program->raw && head_.scale != T(1))
        for (std::int64_t n = 0; n < count; ++n) grads[n] *= head_.scale;
      return;
    }
    for (int s = 0; s < head_.slots; ++s)
      if (head_.relative[s].table) slots_[s].clear_grads(false);
    ScoreTile<T> tile = score_tile(grads);
    tile.raw = raw_;
    tile.value_grads = value_grads;
    head_.program->score_backward(tile);
    for (int s = 0; s < head_.slots; ++s)
      if (head_.relative[s].table) slots_[s].finish_tile(dr_rows);
  }

  // Of the raw scores, whose gradients may be changed on the way.
  void pairs_backward(const PairTile<T>& pairs, T* grads) {
    if (head_.fast) forms_.backward(pairs, grads, tile_first_);
    else head_.program->raw_backward(pairs);
  }

  void begin_block_backward(std::int64_t first_key, std::int64_t keys) {
    for (int s = 0; s < head_.slots; ++s)
      if (head_.relative[s].table) slots_[s].begin_block(first_key, keys);
  }
  void end_block_backward(T* dr_rows) {
    for (int s = 0; s < head_.slots; ++s)
      if (head_.relative[s].table) slots_[s].finish_block(count_, dr_rows);
  }

  void add_to_tables() const {
    for (int s = 0; s < head_.slots; ++s)
      if (head_.relative[s].table) slots_[s].add_to_table();
  }

  PairTile<T> pair_tile(int keys, const T* key_rows, std::ptrdiff_t key_stride) const {
    PairTile<T> tile;
    tile.object = head_.object;
    tile.queries = q_columns_;
    tile.key_rows = key_rows;
    tile.weights = head_.pair_weights;
    tile.dim = head_.dim;
    tile.keys = keys;
    tile.columns = columns_;
    tile.stride = columns_;
    tile.key_stride = key_stride;
    return tile;
  }

  const T* q_rows() const { return q_rows_; }
  // The queries' numbers as bf16; what is left of the scale is to be applied to their products.
  Bf16Rows q_rows16() const { return q16_; }
  std::int64_t bf16_dim() const { return bf16_dim_; }
  T bf16_scale() const { return bf16_scale_; }
  std::int64_t dim_pad() const { return dim_pad_; }
  std::int64_t relative_pad() const { return relative_pad_; }
  std::int64_t first_query() const { return first_query_; }
  int count() const { return count_; }
  // The columns that strips are of; what is in others is of no use.
  int live() const { return live_; }
  // Every query of the block sees every one of these keys, whatever hooks may hide.
  bool sees_all(std::int64_t first, std::int64_t keys) const {
    return full_begin_ <= first && first + keys <= full_end_;
  }

 private:
  void load_q_rows(const MatrixRef& q) {
    load_rows(q, first_query_, count_, head_.dim, q_rows_, dim_pad_);
    clear_rows(q_rows_, dim_pad_);
  }

  // A formula may have no number for the padding's queries: NaN there would spread to the gradients of keys.
  void clear_padding(T* scores) const {
    if (count_ == columns_) return;
    for (int j = 0; j < tile_keys_; ++j)
      for (int c = count_; c < columns_; ++c) scores[static_cast<std::ptrdiff_t>(j) * columns_ + c] = 0;
  }

  void clear_rows(T* rows, std::int64_t stride) const {
    for (std::int64_t n = count_ * stride; n < columns_ * stride; ++n) rows[n] = 0;
  }

  // Exact kernels scale their products. For others a scale that is a power of two goes into the queries without rounding;
  // another one is applied to the scores. Returns what went into the queries.
  T set_query_bf16(T factor) {
    if constexpr (std::is_same_v<T, float>) {
      const auto* rows = static_cast<const std::uint16_t*>(head_.q.data) + first_query_ * head_.q.stride;
      int exponent = 0;
      const bool folds = !head_.bf16->exact && factor != T(1) && __builtin_frexpf(factor, &exponent) == 0.5F;
      bf16_scale_ = folds ? T(1) : factor;
      q16_ = {rows, head_.q.stride * 2};
      if (folds) {
        head_.bf16->copy_rows(rows, head_.q.stride, count_, head_.dim, q_rows16_, bf16_dim_);
        const hn::Rebind<std::uint16_t, Tag<float>> narrow;
        const hn::Rebind<std::uint32_t, Tag<float>> wide;
        for (std::int64_t n = 0; n < count_ * bf16_dim_; n += kLanes<T>) {
          const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, q_rows16_ + n)));
          const auto scaled = hn::Mul(hn::BitCast(Tag<float>(), bits), hn::Set(Tag<float>(), factor));
          const hn::Rebind<std::int32_t, Tag<float>> whole;
          const auto top = hn::BitCast(whole, hn::ShiftRight<16>(hn::BitCast(wide, scaled)));
          hn::StoreU(hn::DemoteTo(narrow, top), narrow, q_rows16_ + n);
        }
        q16_ = {q_rows16_, bf16_dim_ * 2};
      }
      head_.bf16->transpose_pairs(static_cast<const std::uint16_t*>(q16_.data), q16_.row_bytes / 2, count_, head_.dim,
                                  live_, bf16_dim_, q_bf16_, columns_);
      return folds ? factor : T(1);
    }
    return factor;
  }

  void few_scores(int keys, const T* rows, std::ptrdiff_t stride, const Bf16Rows& bf16_rows, T* scores) const {
    const FewQueries<T> queries{q_rows_, dim_pad_, count_, columns_, head_.dim};
    if constexpr (std::is_same_v<T, float>)
      if (bf16_rows.data)
        return few_dots<T, true>(queries, static_cast<const Bf16Bits*>(bf16_rows.data), bf16_rows.row_bytes / 2, keys,
                                 reinterpret_cast<Bf16Bits*>(few_rows_), scores, columns_);
    if (head_.k.dtype == dtype_of<T>()) few_dots<T, true>(queries, rows, stride, keys, few_rows_, scores, columns_);
    else few_dots<T, false>(queries, rows, stride, keys, few_rows_, scores, columns_);
  }

  void bf16_scores(int keys, const Bf16Rows& rows, T* scores) const {
    if constexpr (std::is_same_v<T, float>) {
      const bool exact = head_.bf16->exact;
      head_.bf16->product({.m = exact ? keys : round_up(keys, 16),
                           .n = live_,
                           .k = exact ? (head_.dim + 1) / 2 : bf16_dim_ / 2,
                           .a = rows.data,
                           .a_row = rows.row_bytes,
                           .b = q_bf16_,
                           .b_row = columns_,
                           .c = scores,
                           .c_row = columns_,
                           .accumulate = false,
                           .scale = exact ? bf16_scale_ : 1.0F});
      if (exact || bf16_scale_ == T(1)) return;
      const Tag<T> tag;
      const Vec<T> by = hn::Set(tag, bf16_scale_);
      for (std::int64_t n = 0; n < static_cast<std::int64_t>(keys) * columns_; n += kLanes<T>)
        hn::StoreU(hn::Mul(hn::LoadU(tag, scores + n), by), tag, scores + n);
    }
  }

  ScoreTile<T> score_tile(T* scores) {
    ScoreTile<T> tile = head_.score_tile;
    tile.scores = scores;

    tile.keys = tile_keys_;
    tile.columns = columns_;
    tile.stride = columns_;
    tile.first_query = position_;
    tile.first_key = head_.first_key + tile_first_;
    tile.values = head_.values;
    if (head_.grid && grid_first_ != tile_first_) {
      grid_first_ = tile_first_;
      for (int j = 0; j < kTileKeys; ++j) {
        const std::int64_t key = head_.first_key + (tile_first_ + j < head_.keys ? tile_first_ + j : head_.keys - 1);
        key_row_index_[j] = static_cast<std::int32_t>(key / head_.grid_cols);
        key_col_index_[j] = static_cast<std::int32_t>(key % head_.grid_cols);
        key_row_[j] = static_cast<T>(key_row_index_[j]);
        key_col_[j] = static_cast<T>(key_col_index_[j]);
      }
    }
    tile.query_row = query_row_;
    tile.query_col = query_col_;
    tile.key_row = key_row_;
    tile.key_col = key_col_;
    for (int s = 0; s < head_.slots; ++s)
      if (head_.relative[s].table) {
        // The backward call reuses what the forward call of the same tile filled.
        if (filled_first_[s] != tile_first_ || filled_query_[s] != first_query_) {
          const std::int32_t* axis = head_.relative[s].along == Along::grid_row ? key_row_index_ : key_col_index_;
          slots_[s].fill(tile_first_, tile_keys_, axis, rows_[s]);
          filled_first_[s] = tile_first_;
          filled_query_[s] = first_query_;
        }
        tile.relative[s] = rows_[s];
      }
    return tile;
  }

  void cap(T* scores, std::int64_t count) {
    const Tag<T> tag;
    const Vec<T> cap = hn::Set(tag, head_.softcap);
    for (std::int64_t n = 0; n < count; n += kLanes<T>) {
      const Lane<T> x(hn::Div(hn::LoadU(tag, scores + n), cap));
      if (slopes_) {
        const ValueAndSlope<Lane<T>> t = tanh_and_slope(x);
        hn::StoreU(t.slope.v, tag, slopes_ + n);
        hn::StoreU(hn::Mul(t.value.v, cap), tag, scores + n);
      } else {
        hn::StoreU(hn::Mul(tanh(x).v, cap), tag, scores + n);
      }
    }
  }

  // A hidden pair has no gradient, even where its score is NaN.
  void uncap(T* grads, std::int64_t count) const {
    const Tag<T> tag;
    for (std::int64_t n = 0; n < count; n += kLanes<T>) {
      const Vec<T> grad = hn::LoadU(tag, grads + n), slope = hn::LoadU(tag, slopes_ + n);
      hn::StoreU(hn::IfThenZeroElse(hn::Eq(grad, hn::Zero(tag)), hn::Mul(grad, slope)), tag, grads + n);
    }
  }

  void hide(T* scores) {
    if (head_.program->hide && visible_ != Visible::all) {
      head_.program->hide(score_tile(scores));
      clear_padding(scores);
    }
    if (head_.mask)
      for (int c = 0; c < count_; ++c) {
        const std::uint8_t* row = head_.mask + (first_query_ + c) * head_.mask_row + tile_first_;
        for (int j = 0; j < tile_keys_; ++j)
          if (!row[j]) scores[static_cast<std::ptrdiff_t>(j) * columns_ + c] = -kInfinity<T>;
      }
    if (is_whole()) return;
    // Places within the tile are small, so they are exact in any type.
    for (int c = 0; c < columns_; ++c) {
      low_[c] = static_cast<T>(
          begin_[c] < tile_first_ ? 0 : (begin_[c] - tile_first_ > kTileKeys ? kTileKeys : begin_[c] - tile_first_));
      high_[c] = static_cast<T>(
          end_[c] < tile_first_ ? 0 : (end_[c] - tile_first_ > kTileKeys ? kTileKeys : end_[c] - tile_first_));
    }
    const Tag<T> tag;
    const Vec<T> hidden = hn::Set(tag, -kInfinity<T>);
    for (int c = 0; c < columns_; c += kLanes<T>) {
      const Vec<T> low = hn::LoadU(tag, low_ + c);
      const Vec<T> high = hn::LoadU(tag, high_ + c);
      for (int j = 0; j < tile_keys_; ++j) {
        T* s = scores + static_cast<std::ptrdiff_t>(j) * columns_ + c;
        const Vec<T> place = hn::Set(tag, static_cast<T>(j));
        const auto seen = hn::And(hn::Ge(place, low), hn::Lt(place, high));
        hn::StoreU(hn::IfThenElse(seen, hn::LoadU(tag, s), hidden), tag, s);
      }
    }
  }

  const HeadTask<T>& head_;
  const int columns_;
  std::int64_t dim_pad_ = 0, relative_pad_ = 0;
  std::int64_t first_query_ = -1;
  std::int64_t position_ = 0;  // of the block's first query
  int count_ = 0;
  int live_ = 0;
  std::int64_t first_key_ = 0, last_key_ = 0;   // some query sees them
  std::int64_t full_begin_ = 0, full_end_ = 0;  // every query sees them
  std::int64_t tile_first_ = 0;
  int tile_keys_ = 0;
  Visible visible_ = Visible::some;
  std::int64_t grid_first_ = -1;
  T query_factor_ = 1;      // what the queries are multiplied by
  T* q_rows_ = nullptr;     // [columns][dim_pad]
  T* q_columns_ = nullptr;  // [dim][columns]
  T* few_rows_ = nullptr;   // [kLanes][dim_pad]: fewer keys than lanes
  std::int64_t bf16_dim_ = 0;
  T bf16_scale_ = 1;
  Bf16Rows q16_;                       // the caller's, or the copy that follows
  std::uint16_t* q_rows16_ = nullptr;  // [columns][bf16_dim], scaled
  std::uint32_t* q_bf16_ = nullptr;    // [bf16_dim / 2][columns]
  T* r_rows_ = nullptr;
  T* r_columns_ = nullptr;
  std::int64_t* begin_ = nullptr;
  std::int64_t* end_ = nullptr;
  T* low_ = nullptr;
  T* high_ = nullptr;
  T* raw_ = nullptr;
  T* slopes_ = nullptr;  // of the softcap
  T* query_row_ = nullptr;
  T* query_col_ = nullptr;
  T* key_row_ = nullptr;
  T* key_col_ = nullptr;
  std::int32_t* key_row_index_ = nullptr;
  std::int32_t* key_col_index_ = nullptr;
  PairForms<T> forms_;
  ScoreBias<T> bias_;
  RelativeSlot<T> slots_[kMaxSlots];
  RelativeRows<T> rows_[kMaxSlots];
  std::int64_t filled_first_[kMaxSlots] = {-1, -1, -1, -1, -1, -1, -1, -1};
  std::int64_t filled_query_[kMaxSlots] = {-1, -1, -1, -1, -1, -1, -1, -1};
};

}  // namespace rapt::inline v1::RAPT_TARGET
