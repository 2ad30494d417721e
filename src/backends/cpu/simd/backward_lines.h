#pragma once

#include "backends/cpu/simd/backward_bf16.h"

// The tiles of plain products of bf16 pairs with few queries: a row is a query, lanes are keys. No lane is left to queries that
// there are not; keys and values are transposed for it, which is little beside that.
namespace rapt::inline v1::RAPT_TARGET {

template <class T>
class BackwardLines {
 public:
  // Of the block of queries, a number each.
  struct Queries {
    int count = 0;
    Bf16Rows rows;              // as the caller has them
    T scale = 1;                // of the products
    const T* max = nullptr;     // what is subtracted from scores
    const T* factor = nullptr;  // of their exponentials
    const T* delta = nullptr;
    const T* delta_rest = nullptr;
    bool huge = false;  // scores may be more than the largest number
    T* sums = nullptr;  // added to: Σ ∂score, and of their sizes
    T* sizes = nullptr;
  };

  // Plain products under softmax of even rows, one set of values, and nothing hidden within what a query sees.
  static bool fits(const HeadTask<T>& head) {
    if (!std::is_same_v<T, float> || !head.bf16 || !head.bf16->exact || head.queries > kMostQueries) return false;
    if (head.sets != 1 || head.dim % 2 != 0 || head.value_dim[0] % 2 != 0 || !head.content) return false;
    const TileProgram<T>& program = *head.program;
    return !program.raw && !program.score && !program.visible_tile && !program.hide && head.slots == 0 &&
           head.softcap == T(0) && !head.bias.data && !head.mask && !head.output_table.table &&
           head.normalizer->threshold == Threshold::exponential;
  }

  void allocate(Arena& arena, const HeadTask<T>& head) {
    head_ = &head;
    const std::int64_t widest = head.dim > head.value_dim[0] ? head.dim : head.value_dim[0];
    columns_ = arena.take<std::uint32_t>(round_up(widest, 32) / 2 * kTileKeys);
    words_ = arena.take<std::uint32_t>(kMostQueries / 2 * kTileKeys);
    rounded_ = arena.take<std::uint16_t>(kMostQueries * kTileKeys);
    weights_ = arena.take<T>(kMostQueries * kTileKeys);
    grads_ = arena.take<T>(kMostQueries * kTileKeys);
  }

  // From the scores of a tile to its weights.
  void weigh(const Queries& queries, const Bf16Rows& keys, int count) {
    multiply(queries.rows, queries.count, keys, count, head_->dim, queries.scale, weights_);
    if (queries.huge) clamp_scores(weights_, static_cast<std::int64_t>(queries.count) * kTileKeys);
    const Tag<T> tag;
    const Vec<T> zero = hn::Zero(tag);
    for (int c = 0; c < queries.count; ++c) {
      const Vec<T> shift = shift_of<T>(hn::Set(tag, queries.max[c]));
      const Vec<T> factor = hn::Set(tag, queries.factor[c]);
      const auto nothing = hn::Eq(factor, zero);
      T* const line = weights_ + static_cast<std::ptrdiff_t>(c) * kTileKeys;
      for (int j = 0; j < kTileKeys; j += kLanes<T>) {
        const Vec<T> e = exp_weight(hn::Sub(hn::LoadU(tag, line + j), shift));
        const auto none =
            hn::Or(nothing, hn::Not(hn::FirstN(tag, count > j ? static_cast<std::size_t>(count - j) : 0)));
        hn::StoreU(hn::IfThenZeroElse(none, hn::Mul(e, factor)), tag, line + j);
      }
    }
  }

  // ∂scores of the tile, from values and the rows of dO.
  void score_gradient(const Queries& queries, const Bf16Rows& grad_out, const Bf16Rows& values, int count) {
    multiply(grad_out, queries.count, values, count, head_->value_dim[0], T(1), grads_);
    const Tag<T> tag;
    for (int c = 0; c < queries.count; ++c) {
      const Vec<T> delta = hn::Set(tag, queries.delta[c]);
      const Vec<T> rest = hn::Set(tag, queries.delta_rest ? queries.delta_rest[c] : T(0));
      const T* const p = weights_ + static_cast<std::ptrdiff_t>(c) * kTileKeys;
      T* const g = grads_ + static_cast<std::ptrdiff_t>(c) * kTileKeys;
      Vec<T> sum = hn::Zero(tag), size = hn::Zero(tag);
      for (int j = 0; j < kTileKeys; j += kLanes<T>) {
        const Vec<T> weight = hn::LoadU(tag, p + j);
        const Vec<T> all = hn::Mul(weight, hn::Sub(hn::Sub(hn::LoadU(tag, g + j), delta), rest));
        const Vec<T> ds = hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(tag)), all);
        hn::StoreU(ds, tag, g + j);
        sum = hn::Add(sum, ds);
        size = hn::Add(size, hn::Abs(ds));
      }
      queries.sums[c] += hn::GetLane(hn::SumOfLanes(tag, sum));
      queries.sizes[c] += hn::GetLane(hn::SumOfLanes(tag, size));
    }
  }

  // Rows of the keys = weights or ∂scores · rows of the queries, pairs of which are side by side.
  void value_gradient(int queries, int keys, const std::uint32_t* pairs, const GradientRows<T>& dv) const {
    multiply_by_keys(weights_, queries, keys, pairs, dv);
  }
  void key_gradient(int queries, int keys, const std::uint32_t* pairs, const GradientRows<T>& dk) const {
    multiply_by_keys(grads_, queries, keys, pairs, dk);
  }

  // Rows of the queries += ∂scores · keys, pairs of which are side by side.
  void query_gradient(int queries, int keys, const std::uint32_t* pairs, const GradientRows<T>& dq) const {
    if constexpr (std::is_same_v<T, float>) {
      head_->bf16->round_rows(grads_, queries, kTileKeys, kTileKeys, rounded_, kTileKeys);
      head_->bf16->product({.m = queries,
                            .n = dq.stride,
                            .k = (keys + 1) / 2,
                            .a = rounded_,
                            .a_row = kTileKeys * 2,
                            .b = pairs,
                            .b_row = dq.stride,
                            .c = dq.at,
                            .c_row = dq.stride,
                            .accumulate = dq.add});
    }
  }

 private:
  static constexpr std::int64_t kMostQueries = 24;

  // lines [queries][kTileKeys] = scale · rows · keysᵀ
  void multiply(const Bf16Rows& rows, int queries, const Bf16Rows& keys, int count, std::int64_t dim, T scale,
                T* lines) const {
    if constexpr (std::is_same_v<T, float>) {
      const std::int64_t live = round_up(count, 16);
      head_->bf16->transpose_pairs(static_cast<const std::uint16_t*>(keys.data), keys.row_bytes / 2, count, dim, live,
                                   round_up(dim, 32), columns_, kTileKeys);
      head_->bf16->product({.m = queries,
                            .n = live,
                            .k = dim / 2,
                            .a = rows.data,
                            .a_row = rows.row_bytes,
                            .b = columns_,
                            .b_row = kTileKeys,
                            .c = lines,
                            .c_row = kTileKeys,
                            .scale = scale});
      for (int c = 0; c < queries; ++c)
        for (std::int64_t j = live; j < kTileKeys; ++j) lines[c * kTileKeys + j] = 0;
    }
  }

  void multiply_by_keys(const T* lines, int queries, int keys, const std::uint32_t* pairs,
                        const GradientRows<T>& to) const {
    if constexpr (std::is_same_v<T, float>) {
      head_->bf16->round_to_bf16(lines, queries, kTileKeys, kTileKeys, round_up(queries, 2), words_);
      head_->bf16->product({.m = keys,
                            .n = to.stride,
                            .k = (queries + 1) / 2,
                            .a = words_,
                            .a_row = 4,
                            .a_step = kTileKeys * 4,
                            .b = pairs,
                            .b_row = to.stride,
                            .c = to.at,
                            .c_row = to.stride,
                            .accumulate = to.add});
    }
  }

  const HeadTask<T>* head_ = nullptr;
  std::uint32_t* columns_ = nullptr;  // [dim, padded to 32, / 2][kTileKeys]: keys or values of the tile
  std::uint32_t* words_ = nullptr;    // [kMostQueries / 2][kTileKeys]
  std::uint16_t* rounded_ = nullptr;  // [kMostQueries][kTileKeys], as those that follow
  T* weights_ = nullptr;
  T* grads_ = nullptr;  // their gradients, then the scores'
};

}  // namespace rapt::inline v1::RAPT_TARGET
