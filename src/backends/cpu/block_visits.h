#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "attend/visibility.h"

namespace rapt::inline v1 {

// How many blocks of queries the tasks of backward passes visited, skipped ones included: the time of a pass under a
// narrow mask, for tests that cannot trust a clock.
inline std::atomic<std::int64_t> visited_blocks{0};

// Which blocks of queries meet which chunks of keys, so that a backward pass under a narrow mask visits no others. For one
// block these are chunks that follow each other.
class BlockVisits {
 public:
  BlockVisits() = default;
  // `all`: every block meets every chunk. `in_order`: no chunk's last block comes before that of a chunk before it, though
  // some blocks are then visited in vain. It counts on rows whose keys begin and end no earlier than those of the row before.
  BlockVisits(const Visibility& visibility, std::int64_t batch, std::int64_t queries, std::int64_t keys,
              std::int64_t block_rows, std::int64_t chunk_keys, bool all, bool in_order = false)
      : blocks_((queries + block_rows - 1) / block_rows), chunks_((keys + chunk_keys - 1) / chunk_keys) {
    if (all) return;
    begin_.resize(static_cast<std::size_t>(blocks_));
    end_.resize(static_cast<std::size_t>(blocks_));
    first_block_.assign(static_cast<std::size_t>(chunks_), blocks_);
    last_block_.assign(static_cast<std::size_t>(chunks_), 0);
    std::vector<std::int64_t> low(static_cast<std::size_t>(block_rows)), high(low.size());
    for (std::int64_t n = 0; n < blocks_; ++n) {
      const auto at = static_cast<std::size_t>(n);
      const auto count = static_cast<int>(std::min(block_rows, queries - n * block_rows));
      visibility.ranges(batch, n * block_rows, count, low.data(), high.data());
      std::int64_t first = keys, last = 0;
      for (std::size_t c = 0; c < static_cast<std::size_t>(count); ++c)
        if (low[c] < high[c]) first = std::min(first, low[c]), last = std::max(last, high[c]);
      if (first >= last) continue;
      begin_[at] = first / chunk_keys;
      end_[at] = (last + chunk_keys - 1) / chunk_keys;
      for (auto c = static_cast<std::size_t>(begin_[at]); c < static_cast<std::size_t>(end_[at]); ++c) {
        first_block_[c] = std::min(first_block_[c], n);
        last_block_[c] = n + 1;
      }
    }
    previous_.resize(static_cast<std::size_t>(chunks_));
    std::int64_t before = -1;
    for (std::size_t c = 0; c < previous_.size(); ++c) {
      previous_[c] = before;
      if (first_block_[c] >= last_block_[c]) continue;
      if (in_order && before >= 0) last_block_[c] = std::max(last_block_[c], last_block_[index(before)]);
      before = static_cast<std::int64_t>(c);
    }
  }

  // A range that contains the blocks of a chunk.
  std::int64_t first_block(std::int64_t chunk) const { return is_all() ? 0 : first_block_[index(chunk)]; }
  std::int64_t last_block(std::int64_t chunk) const { return is_all() ? blocks_ : last_block_[index(chunk)]; }

  // The chunk before this one that meets any block; −1: none.
  std::int64_t previous(std::int64_t chunk) const { return is_all() ? chunk - 1 : previous_[index(chunk)]; }

  bool meet(std::int64_t block, std::int64_t chunk) const {
    return is_all() || (begin_[index(block)] <= chunk && chunk < end_[index(block)]);
  }
  // How many chunks before this one the block meets.
  std::int64_t before(std::int64_t block, std::int64_t chunk) const {
    if (is_all()) return chunk;
    return std::clamp<std::int64_t>(chunk - begin_[index(block)], 0, end_[index(block)] - begin_[index(block)]);
  }

 private:
  bool is_all() const { return begin_.empty(); }
  static std::size_t index(std::int64_t n) { return static_cast<std::size_t>(n); }

  std::int64_t blocks_ = 0, chunks_ = 0;
  std::vector<std::int64_t> begin_, end_;               // of each block: its chunks
  std::vector<std::int64_t> first_block_, last_block_;  // of each chunk
  std::vector<std::int64_t> previous_;                  // of each chunk
};

}  // namespace rapt::inline v1
