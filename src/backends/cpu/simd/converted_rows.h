#pragma once

#include "backends/cpu/simd/few_queries.h"

// Rows of dk and dv of a narrower type, which a task writes whole: with one block of queries a tile at a time, as soon as it is
// known, else once all blocks are added up.
namespace rapt::inline v1::RAPT_TARGET {

template <class T>
class ConvertedRows {
 public:
  ConvertedRows(Arena& arena, const HeadTask<T>& head, const BackwardTask<T>& task, bool one_block)
      : head_(head), task_(task), one_block_(one_block), buffer_(arena.take<T>(kTileKeys * widest_row(head))) {}

  // By tiles.
  bool writes_dk() const { return has_dk() && one_block_; }
  bool writes_dv(int s) const { return has_dv(s) && one_block_; }

  // A tile's rows before they are converted, [kTileKeys][pad], and how they are.
  T* buffer() const { return buffer_; }
  void store_dk(std::int64_t offset, int keys, T scale) const {
    const Tag<T> tag;
    for (std::int64_t n = 0; n < keys * padded<T>(head_.dim) && scale != T(1); n += kLanes<T>)
      hn::StoreU(hn::Mul(hn::LoadU(tag, buffer_ + n), hn::Set(tag, scale)), tag, buffer_ + n);
    store(buffer_, padded<T>(head_.dim), head_.dim, task_.dk_rows, offset, keys);
  }
  void store_dv(int s, std::int64_t offset, int keys) const {
    store(buffer_, padded<T>(head_.value_dim[s]), head_.value_dim[s], task_.dv_rows[s], offset, keys);
  }

  // Of keys that no query sees.
  void store_nothing(std::int64_t offset, std::int64_t keys) const {
    const auto clear = [&](const MatrixRef& to, std::int64_t dim) {
      for (std::int64_t d = 0; d < dim; ++d) buffer_[d] = 0;
      for (std::int64_t j = 0; j < keys; ++j) store_row(buffer_, dim, to, task_.first_key + offset + j);
    };
    if (writes_dk()) clear(task_.dk_rows, head_.dim);
    for (int s = 0; s < head_.sets; ++s)
      if (writes_dv(s)) clear(task_.dv_rows[s], head_.value_dim[s]);
  }

  // What was added up.
  void store_sums(const T* dk, std::ptrdiff_t dk_stride, T* const* dv, const std::ptrdiff_t* dv_stride) const {
    if (one_block_) return;
    if (has_dk()) store(dk, dk_stride, head_.dim, task_.dk_rows, 0, task_.count);
    for (int s = 0; s < head_.sets; ++s)
      if (has_dv(s)) store(dv[s], dv_stride[s], head_.value_dim[s], task_.dv_rows[s], 0, task_.count);
  }

  // Rows of a tile that are written soon come to the caches meanwhile.
  void fetch(std::int64_t offset, int keys) const {
    if constexpr (std::is_same_v<T, float>) {
      const auto fetch_some = [&](const MatrixRef& to, std::int64_t dim) {
        fetch_rows(static_cast<const std::uint16_t*>(to.data) + (task_.first_key + offset) * to.stride, to.stride, keys,
                   dim);
      };
      if (writes_dk()) fetch_some(task_.dk_rows, head_.dim);
      for (int s = 0; s < head_.sets; ++s)
        if (writes_dv(s)) fetch_some(task_.dv_rows[s], head_.value_dim[s]);
    }
  }

 private:
  static std::int64_t widest_row(const HeadTask<T>& head) {
    std::int64_t widest = padded<T>(head.dim);
    for (int s = 0; s < head.sets; ++s) {
      const std::int64_t pad = padded<T>(head.value_dim[s]);
      widest = pad > widest ? pad : widest;
    }
    return widest;
  }

  bool has_dk() const { return task_.dk_rows.data != nullptr; }
  bool has_dv(int s) const { return task_.dv_rows && task_.dv_rows[s].data; }

  void store(const T* from, std::ptrdiff_t stride, std::int64_t dim, const MatrixRef& to, std::int64_t offset,
             std::int64_t rows) const {
    const std::int64_t first = task_.first_key + offset;
    if constexpr (std::is_same_v<T, float>)
      if (head_.bf16)
        return head_.bf16->store_rows(from, rows, dim, stride, static_cast<std::uint16_t*>(to.data) + first * to.stride,
                                      to.stride);
    for (std::int64_t j = 0; j < rows; ++j) store_row(from + j * stride, dim, to, first + j);
  }

  const HeadTask<T>& head_;
  const BackwardTask<T>& task_;
  const bool one_block_;
  T* const buffer_;
};

}  // namespace rapt::inline v1::RAPT_TARGET
