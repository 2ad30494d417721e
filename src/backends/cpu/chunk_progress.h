#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace rapt::inline v1 {

// The progress of each chunk of keys through the blocks of queries, in order. A chunk may wait only for one that was
// started before it.
class ChunkProgress {
 public:
  explicit ChunkProgress(std::int64_t chunks) : next_(static_cast<std::size_t>(chunks)) {}

  // All blocks before this one are done.
  void pass(std::int64_t chunk, std::int64_t block) {
    next_[static_cast<std::size_t>(chunk)].store(block, std::memory_order_release);
  }
  // Until the chunk is past this block.
  void wait(std::int64_t chunk, std::int64_t block) const {
    const std::atomic<std::int64_t>& next = next_[static_cast<std::size_t>(chunk)];
    while (next.load(std::memory_order_acquire) <= block) {
      if (abandoned_.load(std::memory_order_acquire)) return;
      std::this_thread::yield();
    }
  }
  // After an error nobody waits any more: the call's results are discarded.
  void abandon() { abandoned_.store(true, std::memory_order_release); }

 private:
  std::vector<std::atomic<std::int64_t>> next_;
  std::atomic<bool> abandoned_{false};
};

}  // namespace rapt::inline v1
