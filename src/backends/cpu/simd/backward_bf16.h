#pragma once

#include "backends/cpu/simd/scores.h"

// The five products of the backward pass as products of bf16 pairs, and the layouts that they read.
namespace rapt::inline v1::RAPT_TARGET {

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
                    arena.take<std::uint16_t>(columns * wide),
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
  bool is_block_finite(const std::uint16_t* q_rows, const MatrixRef* grad_out, std::int64_t first, int count) const {
    bool finite = head_->bf16->finite_rows(q_rows, bf16_dim_, count, head_->dim);
    for (int s = 0; s < head_->sets; ++s) finite = finite && is_finite(grad_out[s], first, count, head_->value_dim[s]);
    return finite;
  }

  // q_rows [count][bf16_dim].
  void load_queries(const std::uint16_t* q_rows, const MatrixRef* grad_out, std::int64_t first, int count) {
    const bool exact = head_->bf16->exact;
    query_words_ = exact ? (count + 1) / 2 : kQueryPad / 2;
    const std::int64_t rows = exact ? round_up(count, 16) : columns_;
    head_->bf16->interleave_rows(q_rows, bf16_dim_, count, head_->dim, 2 * query_words_, query_bf16_, dim16_);
    for (int s = 0; s < head_->sets; ++s) {
      const std::int64_t dim = head_->value_dim[s];
      const std::int64_t wide = round_up(dim, 32);
      const MatrixRef& grad = grad_out[s];
      head_->bf16->copy_rows(rows16(grad, first), grad.stride, count, dim, sets_[s].grad_rows, wide);
      for (std::int64_t n = count * wide; n < rows * wide; ++n) sets_[s].grad_rows[n] = 0;
      head_->bf16->transpose_words(reinterpret_cast<const std::uint32_t*>(sets_[s].grad_rows), wide / 2, rows, wide / 2,
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

  // `live`: the columns that there are queries for, and what pads them; what is in others is of no use.
  // dV += P·dO: rows of the weights, pairs of queries.
  void value_gradient(const T* weights, int keys, int live, std::int64_t offset, T* const* dv,
                      const std::ptrdiff_t* stride) {
    if constexpr (std::is_same_v<T, float>) {
      round_tile(weights, keys, live);
      for (int s = 0; s < head_->sets; ++s) {
        const std::int64_t dim16 = round_up(head_->value_dim[s], 16);
        head_->bf16->product({.m = rows_of(keys),
                              .n = dim16,
                              .k = words_of(live),
                              .a = tile16_,
                              .a_row = kQueryPad * 2,
                              .b = sets_[s].grad_bf16,
                              .b_row = dim16,
                              .c = dv[s] + offset * stride[s],
                              .c_row = stride[s],
                              .accumulate = true});
      }
    }
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
  void key_gradient(const T* grads, int keys, int live, T* dk, std::ptrdiff_t stride) {
    if constexpr (std::is_same_v<T, float>) {
      round_tile(grads, keys, live);
      head_->bf16->product({.m = rows_of(keys),
                            .n = dim16_,
                            .k = words_of(live),
                            .a = tile16_,
                            .a_row = kQueryPad * 2,
                            .b = query_bf16_,
                            .b_row = dim16_,
                            .c = dk,
                            .c_row = stride,
                            .accumulate = true});
    }
  }

  // dQ += dSᵀ·K.
  void query_gradient(const T* grads, int keys, int live, std::int64_t offset, T* dq, std::ptrdiff_t stride) {
    if constexpr (std::is_same_v<T, float>) {
      head_->bf16->round_to_bf16(grads, keys, live, columns_, tile_bf16_);
      const bool exact = head_->bf16->exact;
      if (!exact) head_->bf16->transpose_words(tile_bf16_, live, kTileKeys / 2, live, transposed_, kTileKeys / 2);
      head_->bf16->product({.m = live,
                            .n = dim16_,
                            .k = exact ? (keys + 1) / 2 : kTileKeys / 2,
                            .a = exact ? tile_bf16_ : transposed_,
                            .a_row = exact ? 4 : kTileKeys * 2,
                            .a_step = exact ? live * 4 : 4,
                            .b = key_bf16_ + offset / 2 * dim16_,
                            .b_row = dim16_,
                            .c = dq,
                            .c_row = stride,
                            .accumulate = true});
    }
  }

 private:
  static constexpr std::int64_t kQueryPad = kMostColumns<T>;  // columns of a tile, padded

  // bf16 numbers of one value set.
  struct Set {
    std::uint16_t* value_copies;  // [keys][value_dim, padded to 32]
    Bf16Rows values;              // of the chunk
    std::uint16_t* grad_rows;     // [columns][value_dim, padded to 32]
    std::uint32_t* grad_columns;  // [half of it][columns]
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

  void round_tile(const T* tile, int keys, int live) {
    if constexpr (std::is_same_v<T, float>) {
      head_->bf16->round_rows(tile, keys, live, columns_, tile16_, kQueryPad);
      for (std::int64_t n = keys * kQueryPad; n < rows_of(keys) * kQueryPad; ++n) tile16_[n] = 0;
    }
  }

  const HeadTask<T>* head_ = nullptr;
  int columns_ = 0;
  std::int64_t bf16_dim_ = 0, dim16_ = 0;
  std::int64_t query_words_ = 0;         // of the block
  Bf16Rows key_rows_;                    // of the chunk
  std::uint16_t* keys16_ = nullptr;      // [keys][bf16_dim]
  std::uint32_t* key_bf16_ = nullptr;    // [keys / 2][dim16]
  std::uint32_t* query_bf16_ = nullptr;  // [kQueryPad / 2][dim16]
  std::uint16_t* tile16_ = nullptr;      // [kTileKeys][kQueryPad]
  std::uint32_t* tile_bf16_ = nullptr;   // [kTileKeys / 2][columns]
  std::uint32_t* transposed_ = nullptr;  // [columns][kTileKeys / 2]
  Set* sets_ = nullptr;
};

}  // namespace rapt::inline v1::RAPT_TARGET
