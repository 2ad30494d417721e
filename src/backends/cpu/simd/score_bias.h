#pragma once

#include "backends/cpu/simd/few_queries.h"

// The bias of a tile. Its rows lie along the keys, the tile's along the queries: they are transposed on the way.
namespace rapt::inline v1::RAPT_TARGET {

// A bias of −∞ hides the pair, whatever its score is: −∞ + NaN would be NaN.
struct AddOrHide {
  template <class T>
  RAPT_FN T operator()(T score, T bias) const {
    if constexpr (std::is_floating_point_v<T>) {
      return bias == -kInfinity<T> ? bias : score + bias;
    } else {
      const hn::DFromV<T> tag;
      const auto hidden = hn::Eq(bias, hn::Set(tag, -kInfinity<hn::TFromD<decltype(tag)>>));
      return hn::IfThenElse(hidden, bias, hn::Add(score, bias));
    }
  }
};

template <class T>
class ScoreBias {
 public:
  void allocate(Arena& arena, const MatrixRef& bias, int columns) {
    bias_ = bias;
    columns_ = columns;
    if (!bias.data) return;
    converted_ = arena.take<T>(kTileKeys * columns);
  }

  // Its numbers are read after the tile's product, and come from far away meanwhile.
  void set_tile(std::int64_t first_query, int queries, std::int64_t first_key, int keys) {
    if (!bias_.data) return;
    first_query_ = first_query;
    queries_ = queries;
    first_key_ = first_key;
    keys_ = keys;
    if (bias_.stride != 0 && bias_.dtype == dtype_of<T>()) fetch_rows(row(0), bias_.stride, queries, keys);
  }

  void add(T* scores) {
    if (!bias_.data) return;
    const Tag<T> tag;
    const T* first = row(0);
    if (bias_.stride == 0) {
      for (int j = 0; j < keys_; ++j)
        for (int c = 0; c < columns_; c += kLanes<T>) {
          T* s = scores + j * columns_ + c;
          hn::StoreU(AddOrHide()(hn::LoadU(tag, s), hn::Set(tag, first[j])), tag, s);
        }
      return;
    }
    std::ptrdiff_t stride = bias_.stride;
    if (bias_.dtype != dtype_of<T>()) {
      stride = kTileKeys;
      for (int c = 1; c < queries_; ++c) row(c);
    }
    transpose_add(first, stride, queries_, keys_, scores, columns_, AddOrHide());
  }

  // dbias [queries][stride] from the tile's first key on, added to.
  void add_grad(const T* grads, T* dbias, std::ptrdiff_t stride) const {
    transpose_add(grads, columns_, keys_, queries_, dbias + first_query_ * stride, stride);
  }

 private:
  // The tile's part of one query's bias, converted where it has another type.
  const T* row(int column) {
    MatrixRef row = bias_;
    row.data = static_cast<char*>(row.data) +
               ((first_query_ + column) * bias_.stride + first_key_) * static_cast<std::int64_t>(size_of(row.dtype));
    if (row.dtype == dtype_of<T>()) return static_cast<const T*>(row.data);
    load_row(row, 0, keys_, converted_ + column * kTileKeys);
    return converted_ + column * kTileKeys;
  }

  MatrixRef bias_;  // data null: none
  int columns_ = 0, queries_ = 0, keys_ = 0;
  std::int64_t first_query_ = 0, first_key_ = 0;
  T* converted_ = nullptr;  // [columns][kTileKeys]
};

}  // namespace rapt::inline v1::RAPT_TARGET
