#include "kernels/parallel.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace rapt {
namespace {

// One call of parallel_for: workers take the next task until there is none.
struct Job {
  std::int64_t count = 0;
  const std::function<void(std::int64_t, int)>* task = nullptr;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::mutex error_mutex;

  void work(int worker) {
    for (;;) {
      const std::int64_t n = next.fetch_add(1, std::memory_order_relaxed);
      if (n >= count || failed.load(std::memory_order_relaxed)) return;
      try {
        (*task)(n, worker);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
  }
};

void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Threads that live as long as the process and sleep between jobs. One job at a time: a second caller, or a task that
// itself calls parallel_for, works alone, which is correct and cannot deadlock.
class Pool {
 public:
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  void run(Job& job, int threads) {
    const std::unique_lock busy(busy_, std::try_to_lock);
    if (!busy.owns_lock()) {
      job.work(0);
      return;
    }
    grow(threads - 1);
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      wanted_ = threads - 1;
      joined_ = 0;
      running_.store(0, std::memory_order_relaxed);
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    job.work(0);
    {
      const std::lock_guard lock(mutex_);
      job_ = nullptr;  // who has not joined by now finds no job
    }
    for (int spins = 0; running_.load(std::memory_order_acquire) != 0; ++spins) {
      if (spins < 2000) pause_processor();
      else std::this_thread::yield();
    }
  }

 private:
  void grow(int count) {
    while (static_cast<int>(threads_.size()) < count) threads_.emplace_back([this] { loop(); });
  }

  void loop() {
    std::uint64_t seen = 0;
    for (;;) {
      // A short spin keeps the gap between successive small jobs low.
      for (int spins = 0; spins < 4000 && generation_.load(std::memory_order_acquire) == seen; ++spins)
        pause_processor();
      Job* job = nullptr;
      int worker = 0;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || generation_.load(std::memory_order_relaxed) != seen; });
        if (stop_) return;
        seen = generation_.load(std::memory_order_relaxed);
        if (job_ != nullptr && joined_ < wanted_) {
          job = job_;
          worker = ++joined_;
          running_.fetch_add(1, std::memory_order_relaxed);
        }
      }
      if (job == nullptr) continue;
      job->work(worker);
      running_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::mutex busy_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> threads_;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> running_{0};
  Job* job_ = nullptr;
  int wanted_ = 0;
  int joined_ = 0;
  bool stop_ = false;
};

Pool& pool() {
  static Pool instance;
  return instance;
}

}  // namespace

void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t, int)>& task) {
  Job job;
  job.count = count;
  job.task = &task;
  const int useful = static_cast<int>(std::min<std::int64_t>(threads, count));
  if (useful <= 1) job.work(0);
  else pool().run(job, useful);
  if (job.error) std::rethrow_exception(job.error);
}

void Turns::wait(std::int64_t place, std::int64_t ordinal) const {
  const std::atomic<std::int64_t>& next = next_[static_cast<std::size_t>(place)];
  for (int spins = 0; next.load(std::memory_order_acquire) != ordinal; ++spins) {
    if (abandoned_.load(std::memory_order_acquire)) return;
    if (spins < 1000) pause_processor();
    else std::this_thread::yield();
  }
}

}  // namespace rapt
