#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "rapt/api.h"

namespace rapt::inline v1 {

// A function (n, worker) of the caller's, which must outlive the call: unlike std::function it allocates nothing.
class TaskRef {
 public:
  template <class F>
    requires(!std::is_same_v<F, TaskRef>)
  TaskRef(const F& task)
      : task_(&task),
        call_([](const void* f, std::int64_t n, int worker) { (*static_cast<const F*>(f))(n, worker); }) {}

  void operator()(std::int64_t n, int worker) const { call_(task_, n, worker); }

 private:
  const void* task_;
  void (*call_)(const void*, std::int64_t, int);
};

// Calls task(n, worker) for n = 0 … count−1 on up to `threads` threads, the caller's included. Tasks are started in
// order, each by whichever thread is free; worker is in [0, threads). The first exception is thrown again here.
RAPT_API void parallel_for(std::int64_t count, int threads, TaskRef task);

// Microseconds that an idle thread spins for the next job before it sleeps. Tests, whose calls lie far apart, set fewer.
extern std::atomic<int> awake_us;

// Lets tasks that add to the same place do so in a fixed order, whatever thread runs them: place p is served to
// ordinal 0, 1, 2, … in turn. A task may wait only for tasks that were started before it.
class Tickets {
 public:
  explicit Tickets(std::int64_t places) : next_(static_cast<std::size_t>(places)) {}

  void wait(std::int64_t place, std::int64_t ordinal) const;
  // After an error no thread waits any more: what is added then is thrown away with the call.
  void abandon() { abandoned_.store(true, std::memory_order_release); }
  void done(std::int64_t place) { next_[static_cast<std::size_t>(place)].fetch_add(1, std::memory_order_release); }

 private:
  std::vector<std::atomic<std::int64_t>> next_;
  std::atomic<bool> abandoned_{false};
};

}  // namespace rapt::inline v1
