#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "rapt/api.h"

namespace rapt::inline v1 {

// Calls task(n, worker) for n = 0 … count−1 on up to `threads` threads, the caller's included. Tasks are started in
// order, each by whichever thread is free; worker is in [0, threads). The first exception is thrown again here.
RAPT_API void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t, int)>& task);

// Lets tasks that add to the same place do so in a fixed order, whatever thread runs them: place p is served to
// ordinal 0, 1, 2, … in turn. A task may wait only for tasks that were started before it.
class Turns {
 public:
  explicit Turns(std::int64_t places) : next_(static_cast<std::size_t>(places)) {}

  void wait(std::int64_t place, std::int64_t ordinal) const;
  // After an error nobody waits any more: what is added then is thrown away with the call.
  void abandon() { abandoned_.store(true, std::memory_order_release); }
  void done(std::int64_t place) { next_[static_cast<std::size_t>(place)].fetch_add(1, std::memory_order_release); }

 private:
  std::vector<std::atomic<std::int64_t>> next_;
  std::atomic<bool> abandoned_{false};
};

}  // namespace rapt::inline v1
