#include "backends/cpu/parallel.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "backends/cpu/first_call.h"
#include "rapt/error.h"
#include "rapt/threads.h"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace rapt::inline v1 {
namespace {

std::atomic<HostThreads> host_threads{nullptr};
std::atomic<void (*)()> task_hook{nullptr};

void call_task_hook() {
  if (auto* hook = task_hook.load(std::memory_order_relaxed)) hook();
}

constexpr std::size_t kLine = 64;  // of a cache: what all threads read stays apart from what each writes

// One call of parallel_for: workers take the next task until there is none.
struct Job {
  std::int64_t count = 0;
  int workers = 0;
  const TaskRef* task = nullptr;
  alignas(kLine) std::atomic<std::int64_t> next{0};
  alignas(kLine) std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::mutex error_mutex;

  // A task uses its worker's memory, so an invalid worker number from a host must not reach it.
  void work_for_host(int worker) {
    if (worker >= 0 && worker < workers) return work(worker);
    // As below: what was started may be waited for.
    next.store(count, std::memory_order_relaxed);
    const std::lock_guard lock(error_mutex);
    if (!error)
      error =
          std::make_exception_ptr(Error("use_host_threads: expected a call of work(job, worker) for each worker in "
                                        "[0, " +
                                        std::to_string(workers) + "), got worker " + std::to_string(worker)));
  }

  void work(int worker) {
    for (;;) {
      try {
        call_task_hook();
      } catch (...) {
        // Started tasks run to their end, as others may hold later tickets; nothing else is started.
        next.store(count, std::memory_order_relaxed);
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        return;
      }
      const std::int64_t n = next.fetch_add(1, std::memory_order_relaxed);
      if (n >= count || failed.load(std::memory_order_relaxed)) return;
      try {
        (*task)(n, worker);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!failed.exchange(true) && !error) error = std::current_exception();
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
// itself calls parallel_for, works alone, which is correct and cannot deadlock. Never destroyed: main may return while
// another thread computes, and a forked child has no thread to wait for.
class Pool {
 public:
  void run(Job& job, int threads) {
    const std::unique_lock busy(busy_, std::try_to_lock);
    if (!busy.owns_lock()) {
      job.work(0);
      return;
    }
    start_threads(threads - 1);
    wanted_ = threads - 1;
    joined_.store(0, std::memory_order_relaxed);
    job_.store(&job);
    generation_.fetch_add(1);
    if (sleepers_.load() > 0) {
      { const std::lock_guard lock(mutex_); }  // no thread is between looking and sleeping
      wake_.notify_all();
    }
    job.work(0);
    // Sequentially consistent on both sides: a worker adds itself to inside_ before it loads job_, and here job_ is cleared
    // before inside_ is loaded. Either the worker sees null, or it is counted below and waited for.
    job_.store(nullptr);
    for (int spins = 0;; ++spins) {
      const int inside = inside_.load();
      if (inside == 0) break;
      if (spins < 2000) pause_processor();
      else inside_.wait(inside);  // a long last task: frees the processor
    }
  }

 private:
  // If the system cannot start more threads, fewer do the work.
  void start_threads(int wanted) {
    try {
      for (; threads_ < wanted; ++threads_) std::thread([this] { loop(); }).detach();
    } catch (const std::system_error&) {
      return;
    }
  }

  void loop() {
    std::uint64_t seen = 0;
    for (;;) {
      wait_for_job(seen);
      inside_.fetch_add(1);
      if (Job* job = job_.load())
        if (const int worker = joined_.fetch_add(1, std::memory_order_relaxed) + 1; worker <= wanted_)
          job->work(worker);
      if (inside_.fetch_sub(1) == 1) inside_.notify_one();
    }
  }

  // Until there is a job that was not seen.
  void wait_for_job(std::uint64_t& seen) {
    const auto tired = std::chrono::steady_clock::now() + std::chrono::microseconds(awake_us.load());
    while (generation_.load() == seen && std::chrono::steady_clock::now() < tired)
      for (int n = 0; n < 32 && generation_.load() == seen; ++n) pause_processor();
    if (generation_.load() == seen) {
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, [&] { return generation_.load() != seen; });
      sleepers_.fetch_sub(1);
    }
    seen = generation_.load();
  }

  std::mutex busy_;
  std::mutex mutex_;  // of sleeping
  std::condition_variable wake_;
  int threads_ = 0;  // under busy_
  alignas(kLine) std::atomic<std::uint64_t> generation_{0};
  std::atomic<Job*> job_{nullptr};
  int wanted_ = 0;
  alignas(kLine) std::atomic<int> inside_{0};
  std::atomic<int> joined_{0};
  alignas(kLine) std::atomic<int> sleepers_{0};
};

// A forked child has none of its parent's threads, so it gets a pool of its own; the parent's is left as it is.
std::atomic<Pool*> current_pool{nullptr};

// Without a lock: a child would wait forever for the thread that held it.
Pool& pool() {
  Pool* found = current_pool.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  auto made = std::make_unique<Pool>();
  return current_pool.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel) ? *made.release() : *found;
}

#if defined(__unix__) || defined(__APPLE__)
// At load, when there is one thread.
[[maybe_unused]] const int kAtFork = pthread_atfork([] { make_what_calls_share(); }, nullptr,
                                                    [] {
                                                      current_pool.store(nullptr);
                                                      host_threads.store(nullptr);
                                                    });
#endif

}  // namespace

std::atomic<int> awake_us{100};

void parallel_for(std::int64_t count, int threads, TaskRef task) {
  const int useful = static_cast<int>(std::min<std::int64_t>(threads, count));
  if (useful <= 1) {
    for (std::int64_t n = 0; n < count; ++n) {
      call_task_hook();
      task(n, 0);
    }
    return;
  }
  Job job;
  job.count = count;
  job.workers = useful;
  job.task = &task;
  if (const HostThreads run = host_threads.load(std::memory_order_acquire)) {
    run(
        useful, [](void* own, int worker) { static_cast<Job*>(own)->work_for_host(worker); }, &job);
    // Work left by a host that did not call for every worker.
    if (job.next.load(std::memory_order_relaxed) < count) job.work(0);
  } else {
    pool().run(job, useful);
  }
  if (job.error) std::rethrow_exception(job.error);
}

void use_host_threads(HostThreads run) { host_threads.store(run, std::memory_order_release); }

void set_task_hook(void (*hook)()) { task_hook.store(hook, std::memory_order_relaxed); }

void Tickets::wait(std::int64_t place, std::int64_t ordinal) const {
  const std::atomic<std::int64_t>& next = next_[static_cast<std::size_t>(place)];
  for (int spins = 0; next.load(std::memory_order_acquire) != ordinal; ++spins) {
    if (abandoned_.load(std::memory_order_acquire)) return;
    if (spins < 1000) pause_processor();
    else std::this_thread::yield();
  }
}

}  // namespace rapt::inline v1
