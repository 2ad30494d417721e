#pragma once

#include "backends/cpu/simd/scores.h"

// The five products of the backward pass as products of bf16 pairs, and the layouts that they read.
namespace rapt::inline v1::RAPT_TARGET {

// Rows of gradients of a tile's keys.
template <class T>
struct GradientRows {
  T* at = nullptr;
  std::ptrdiff_t stride = 0;
  bool add = false;  // else they are written
};

template <class T>
class BackwardBf16 {
 public:
  void allocate(Arena& arena, const HeadTask<T>& head, int columns, std::int64_t chunk_keys, std::int64_t bf16_dim) {
    head_ = &head;
    columns_ = columns;
    bf16_dim_ = bf16_dim;
    dim16_ = round_up(head.dim, 16);
    keys16_ = arena.take<std::uint16_t>(chunk_keys * bf16_dim);
    key_bf16_ = arena.take<std::uint32_t>(chunk_keys / 2 * dim16_);
    query_bf16_ = arena.take<std::uint32_t>(kQueryPad / 2 * dim16_);
    tile16_ = arena.take<std::uint16_t>(kTileKeys * kQueryPad);
    tile_bf16_ = arena.take<std::uint32_t>(kTileKeys / 2 * columns);
    transposed_ = arena.take<std::uint32_t>(kTileKeys / 2 * columns);
    sets_ = arena.take<Set>(head.sets);
    for (int s = 0; s < head.sets; ++s) {
      const std::int64_t wide = round_up(head.value_dim[s], 32);
      const Set set{arena.take<std::uint16_t>(chunk_keys * wide),
                    {},
                    arena.take<std::uint32_t>(wide / 2 * columns),
                    arena.take<std::uint32_t>(kQueryPad / 2 * round_up(head.value_dim[s], 16))};
      if (sets_) sets_[s] = set;
    }
  }

  void load_chunk(std::int64_t first_key, std::int64_t count) {
    const std::int64_t padded_keys = round_up(count, head_->bf16->exact ? 2 : kTileKeys);
    // As they lie, or copied to where they are padded.
    const auto load = [&](const MatrixRef& from, std::int64_t dim, std::int64_t wide, std::uint16_t* copy) {
      if (head_->bf16->exact && dim % 2 == 0) return Bf16Rows{rows16(from, first_key), from.stride * 2};
      head_->bf16->copy_rows(rows16(from, first_key), from.stride, count, dim, copy, wide);
      for (std::int64_t n = count * wide; n < padded_keys * wide; ++n) copy[n] = 0;
      return Bf16Rows{copy, wide * 2};
    };
    key_rows_ = load(head_->k, head_->dim, bf16_dim_, keys16_);
    head_->bf16->interleave_rows(rows16(head_->k, first_key), head_->k.stride, count, head_->dim, padded_keys,
                                 key_bf16_, dim16_);
    for (int s = 0; s < head_->sets; ++s)
      sets_[s].values =
          load(head_->v[s], head_->value_dim[s], round_up(head_->value_dim[s], 32), sets_[s].value_copies);
  }

  // Whether the keys and values of the chunk are finite.
  bool is_chunk_finite(std::int64_t first_key, std::int64_t count) const {
    bool finite = is_finite(head_->k, first_key, count, head_->dim);
    for (int s = 0; s < head_->sets; ++s)
      finite = finite && is_finite(head_->v[s], first_key, count, head_->value_dim[s]);
    return finite;
  }

  // The same of a block's queries and gradients.
  bool is_block_finite(const Bf16Rows& q, const MatrixRef* grad_out, std::int64_t first, int count) const {
    bool finite =
        head_->bf16->finite_rows(static_cast<const std::uint16_t*>(q.data), q.row_bytes / 2, count, head_->dim);
    for (int s = 0; s < head_->sets; ++s) finite = finite && is_finite(grad_out[s], first, count, head_->value_dim[s]);
    return finite;
  }

  // `live`: of columns, as below.
  void load_queries(const Bf16Rows& q, const MatrixRef* grad_out, std::int64_t first, int count, int live) {
    queries_ = count;
    query_words_ = head_->bf16->exact ? (count + 1) / 2 : kQueryPad / 2;
    head_->bf16->interleave_rows(static_cast<const std::uint16_t*>(q.data), q.row_bytes / 2, count, head_->dim,
                                 2 * query_words_, query_bf16_, dim16_);
    for (int s = 0; s < head_->sets; ++s) {
      const std::int64_t dim = head_->value_dim[s];
      const MatrixRef& grad = grad_out[s];
      head_->bf16->transpose_pairs(rows16(grad, first), grad.stride, count, dim, live, round_up(dim, 32),
                                   sets_[s].grad_columns, columns_);
      head_->bf16->interleave_rows(rows16(grad, first), grad.stride, count, dim, 2 * query_words_, sets_[s].grad_bf16,
                                   round_up(dim, 16));
    }
  }

  // Of the chunk, from its row `offset` on; none where there are no bf16 products.
  Bf16Rows key_rows(std::int64_t offset) const {
    if (!keys16_) return {};
    return row_of(key_rows_, offset);
  }

  // The layouts of the block and of the chunk, for products in another order.
  Bf16Rows value_rows(std::int64_t offset) const { return row_of(sets_[0].values, offset); }
  const std::uint32_t* grad_pairs() const { return sets_[0].grad_bf16; }
  const std::uint32_t* query_pairs() const { return query_bf16_; }
  const std::uint32_t* key_pairs(std::int64_t offset) const { return key_bf16_ + offset / 2 * dim16_; }

  // `live`: the columns that there are queries for, and what pads them; what is in others is of no use.
  // The weights that value_gradient() multiplies.
  void set_weights(const T* weights, int keys, int live) { round_tile(weights, keys, live); }

  // dV += P·dO: rows of the weights, pairs of queries.
  void value_gradient(int s, int keys, int live, const GradientRows<T>& dv) {
    multiply_tile(keys, live, sets_[s].grad_bf16, round_up(head_->value_dim[s], 16), dv);
  }

  // dP = V·dOᵀ.
  void weight_gradient(int keys, int live, std::int64_t offset, T* grads) const {
    if constexpr (std::is_same_v<T, float>)
      for (int s = 0; s < head_->sets; ++s) {
        const std::int64_t dim = head_->value_dim[s];
        const Bf16Rows values = row_of(sets_[s].values, offset);
        head_->bf16->product({.m = rows_of(keys),
                              .n = live,
                              .k = head_->bf16->exact ? (dim + 1) / 2 : round_up(dim, 32) / 2,
                              .a = values.data,
                              .a_row = values.row_bytes,
                              .b = sets_[s].grad_columns,
                              .b_row = columns_,
                              .c = grads,
                              .c_row = columns_,
                              .accumulate = s > 0});
      }
  }

  // dK += dS·Q.
  void key_gradient(const T* grads, int keys, int live, const GradientRows<T>& dk) {
    round_tile(grads, keys, live);
    multiply_tile(keys, live, query_bf16_, dim16_, dk);
  }

  // dQ += dSᵀ·K.
  void query_gradient(const T* grads, int keys, int live, std::int64_t offset, const GradientRows<T>& dq) {
    if constexpr (std::is_same_v<T, float>) {
      const bool exact = head_->bf16->exact;
      head_->bf16->round_to_bf16(grads, keys, live, columns_, exact ? round_up(keys, 2) : kTileKeys, tile_bf16_);
      if (!exact) head_->bf16->transpose_words(tile_bf16_, live, kTileKeys / 2, live, transposed_, kTileKeys / 2);
      head_->bf16->product({.m = exact ? queries_ : live,
                            .n = dim16_,
                            .k = exact ? (keys + 1) / 2 : kTileKeys / 2,
                            .a = exact ? tile_bf16_ : transposed_,
                            .a_row = exact ? 4 : kTileKeys * 2,
                            .a_step = exact ? live * 4 : 4,
                            .b = key_bf16_ + offset / 2 * dim16_,
                            .b_row = dim16_,
                            .c = dq.at,
                            .c_row = dq.stride,
                            .accumulate = dq.add});
    }
  }

 private:
  static constexpr std::int64_t kQueryPad = kMostColumns<T>;  // columns of a tile, padded

  // bf16 numbers of one value set.
  struct Set {
    std::uint16_t* value_copies;  // [keys][value_dim, padded to 32]
    Bf16Rows values;              // of the chunk
    std::uint32_t* grad_columns;  // [value_dim, padded to 32, / 2][columns]
    std::uint32_t* grad_bf16;     // [kQueryPad / 2][value_dim, padded to 16]
  };

  static const std::uint16_t* rows16(const MatrixRef& matrix, std::int64_t first) {
    return static_cast<const std::uint16_t*>(matrix.data) + first * matrix.stride;
  }

  static Bf16Rows row_of(const Bf16Rows& rows, std::int64_t n) {
    return {static_cast<const char*>(rows.data) + n * rows.row_bytes, rows.row_bytes};
  }

  // Of products whose rows are keys, and whose sums are over queries, in words.
  std::int64_t rows_of(int keys) const { return head_->bf16->exact ? keys : round_up(keys, 16); }
  std::int64_t words_of(int live) const { return head_->bf16->exact ? query_words_ : round_up(live, 32) / 2; }

  bool is_finite(const MatrixRef& matrix, std::int64_t first, std::int64_t rows, std::int64_t dim) const {
    return head_->bf16->finite_rows(rows16(matrix, first), matrix.stride, rows, dim);
  }

  // Of the rounded tile: exact kernels read no padding.
  std::int64_t tile_stride(int live) const { return head_->bf16->exact ? live : kQueryPad; }

  void round_tile(const T* tile, int keys, int live) {
    if constexpr (std::is_same_v<T, float>) {
      const std::int64_t stride = tile_stride(live);
      head_->bf16->round_rows(tile, keys, live, columns_, tile16_, stride);
      for (std::int64_t n = keys * stride; n < rows_of(keys) * stride; ++n) tile16_[n] = 0;
    }
  }

  // The rounded tile times rows of pairs of queries.
  void multiply_tile(int keys, int live, const std::uint32_t* rows, std::int64_t width,
                     const GradientRows<T>& to) const {
    if constexpr (std::is_same_v<T, float>)
      head_->bf16->product({.m = rows_of(keys),
                            .n = width,
                            .k = words_of(live),
                            .a = tile16_,
                            .a_row = tile_stride(live) * 2,
                            .b = rows,
                            .b_row = width,
                            .c = to.at,
                            .c_row = to.stride,
                            .accumulate = to.add});
  }

  const HeadTask<T>* head_ = nullptr;
  int columns_ = 0;
  std::int64_t bf16_dim_ = 0, dim16_ = 0;
  int queries_ = 0;                      // of the block
  std::int64_t query_words_ = 0;         // pairs of them
  Bf16Rows key_rows_;                    // of the chunk
  std::uint16_t* keys16_ = nullptr;      // [keys][bf16_dim]
  std::uint32_t* key_bf16_ = nullptr;    // [keys / 2][dim16]
  std::uint32_t* query_bf16_ = nullptr;  // [kQueryPad / 2][dim16]
  std::uint16_t* tile16_ = nullptr;      // [kTileKeys][tile_stride]
  std::uint32_t* tile_bf16_ = nullptr;   // [kTileKeys / 2][columns]
  std::uint32_t* transposed_ = nullptr;  // [columns][kTileKeys / 2]
  Set* sets_ = nullptr;
};

}  // namespace rapt::inline v1::RAPT_TARGET
