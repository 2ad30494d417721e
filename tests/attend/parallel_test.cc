// The threads behind every call: each task once, jobs that follow each other closely or after a sleep, errors, and tickets.

#include "backends/cpu/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rapt/error.h"
#include "rapt/threads.h"
#include "support/sanitized.h"

namespace {

void expect_each_once(std::int64_t count, int threads) {
  std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
  std::atomic<bool> outside{false};
  rapt::parallel_for(count, threads, [&](std::int64_t n, int worker) {
    ++runs[static_cast<std::size_t>(n)];
    if (worker < 0 || worker >= threads) outside = true;
  });
  for (const auto& r : runs) ASSERT_EQ(r.load(), 1);
  ASSERT_FALSE(outside.load());
}

TEST(ParallelThreads, EveryTaskRunsOnce) {
  for (int threads : {1, 2, 3, 5, 9})
    for (std::int64_t count : {0, 1, 2, 7, 100}) expect_each_once(count, threads);
}

TEST(ParallelThreads, ManyShortJobs) {
  std::atomic<std::int64_t> sum{0};
  for (int job = 0; job < 3000; ++job)
    rapt::parallel_for(1 + job % 5, 2 + job % 4, [&](std::int64_t n, int) { sum += n + 1; });
  std::int64_t expected = 0;
  for (int job = 0; job < 3000; ++job) expected += (1 + job % 5) * (2 + job % 5) / 2;
  EXPECT_EQ(sum.load(), expected);
}

TEST(ParallelThreads, JobsAfterASleep) {
  for (int job = 0; job < 20; ++job) {
    expect_each_once(16, 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// No two tasks at the same time may have the same worker's memory.
TEST(ParallelThreads, AWorkerDoesOneTaskAtATime) {
  std::vector<std::atomic<int>> busy(4);
  std::atomic<bool> twice{false};
  for (int job = 0; job < 200; ++job)
    rapt::parallel_for(40, 4, [&](std::int64_t, int worker) {
      if (++busy[static_cast<std::size_t>(worker)] != 1) twice = true;
      --busy[static_cast<std::size_t>(worker)];
    });
  EXPECT_FALSE(twice.load());
}

TEST(ParallelThreads, CallersAtTheSameTimeAndInsideEachOther) {
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller)
    callers.emplace_back([&] {
      for (int job = 0; job < 50; ++job)
        rapt::parallel_for(4, 3,
                           [&](std::int64_t, int) { rapt::parallel_for(3, 2, [&](std::int64_t, int) { ++runs; }); });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs.load(), 3 * 50 * 4 * 3);
}

TEST(ParallelThreads, TheFirstErrorIsThrownAgain) {
  for (int threads : {1, 4}) {
    EXPECT_THROW(rapt::parallel_for(20, threads,
                                    [](std::int64_t n, int) {
                                      if (n == 3) throw std::runtime_error("three");
                                    }),
                 std::runtime_error);
    expect_each_once(20, threads);
  }
}

TEST(ParallelThreads, TurnsKeepTheOrder) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    rapt::Tickets tickets(2);
    std::vector<std::int64_t> order[2];
    rapt::parallel_for(30, 4, [&](std::int64_t n, int) {
      tickets.wait(n % 2, n / 2);
      order[n % 2].push_back(n / 2);
      tickets.done(n % 2);
    });
    for (const auto& places : order) {
      ASSERT_EQ(places.size(), 15U);
      for (std::size_t n = 0; n < places.size(); ++n) ASSERT_EQ(places[n], static_cast<std::int64_t>(n));
    }
  }
}

// The state of a thread of this process, as the system sees it: R runs or wants to, S sleeps.
char state_of(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '?' : line[name_end + 2];
}

// The caller sleeps while it waits for a long last task.
TEST(ParallelThreads, ACallerSleepsThroughALongLastTask) {
  if (state_of(gettid()) == '?') GTEST_SKIP() << "there is no /proc here";
  const pid_t caller = gettid();
  std::atomic<bool> taken{false}, left{false}, slept{false};
  rapt::parallel_for(2, 2, [&](std::int64_t, int worker) {
    if (worker == 0) {  // the caller, which would take the long one too
      while (!taken) std::this_thread::yield();
      left = true;
      return;
    }
    taken = true;
    while (!left) std::this_thread::yield();
    for (int tries = 0; tries < 3000 && !slept; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      slept = state_of(caller) == 'S';
    }
  });
  EXPECT_TRUE(slept);
}

// Lends threads of its own, one fewer than was asked for: a host may have less.
void lend(int workers, void (*work)(void*, int), void* job) {
  std::vector<std::thread> threads;
  for (int worker = 1; worker < workers - 1; ++worker) threads.emplace_back(work, job, worker);
  work(job, 0);
  for (std::thread& thread : threads) thread.join();
}

std::atomic<int> lent{0};

TEST(ParallelThreads, AHostLendsItsThreads) {
  rapt::use_host_threads([](int workers, void (*work)(void*, int), void* job) {
    ++lent;
    lend(workers, work, job);
  });
  for (int threads : {1, 2, 5}) expect_each_once(100, threads);
  EXPECT_THROW(rapt::parallel_for(20, 3, [](std::int64_t, int) { throw std::runtime_error("task"); }),
               std::runtime_error);
  rapt::use_host_threads(nullptr);
  EXPECT_EQ(lent.load(), 3);
  expect_each_once(100, 3);
  EXPECT_EQ(lent.load(), 3);
}

// A call on a host that lends its threads.
std::string error_of(rapt::HostThreads host, int threads) {
  rapt::use_host_threads(host);
  std::string error;
  try {
    expect_each_once(40, threads);
  } catch (const rapt::Error& e) {
    error = e.what();
  }
  rapt::use_host_threads(nullptr);
  return error;
}

// A worker's number is an index of its memory.
TEST(ParallelThreads, AHostsWrongWorkerIsAnError) {
  EXPECT_EQ(error_of([](int, void (*work)(void*, int), void* job) { work(job, -1); }, 3),
            "use_host_threads: expected a call of work(job, worker) for each worker in [0, 3), got worker -1");
  EXPECT_EQ(error_of(
                [](int workers, void (*work)(void*, int), void* job) {
                  work(job, workers);
                  work(job, 0);
                },
                4),
            "use_host_threads: expected a call of work(job, worker) for each worker in [0, 4), got worker 4");
}

TEST(ParallelThreads, WhatAHostLeavesIsDone) {
  EXPECT_EQ(error_of([](int, void (*)(void*, int), void*) {}, 3), "");
}

// A hook that throws ends the call: tasks waiting for earlier tickets need all of those started.
TEST(ParallelThreads, AHookEndsACall) {
  static std::atomic<int> calls{0};
  for (int threads : {1, 4}) {
    for (int last = 1; last < 60; ++last) {
      calls = -last;
      rapt::set_task_hook([] {
        if (++calls == 0) throw std::domain_error("stop");
      });
      rapt::Tickets tickets(1);
      std::atomic<int> runs{0};
      EXPECT_THROW(rapt::parallel_for(100, threads,
                                      [&](std::int64_t n, int) {
                                        tickets.wait(0, n);
                                        ++runs;
                                        tickets.done(0);
                                      }),
                   std::domain_error);
      // Other workers may start more tasks while one throws.
      if (threads == 1) {
        EXPECT_EQ(runs.load(), last - 1);
      }
    }
    rapt::set_task_hook(nullptr);
    expect_each_once(20, threads);
  }
}

// Not "Threads": the thread sanitizer starts none after a fork.
TEST(ParallelFork, AChildHasAPoolOfItsOwn) {
  expect_each_once(100, 3);
  for (int repeat = 0; repeat < 5; ++repeat) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::atomic<int> runs{0};
      rapt::parallel_for(100, 3, [&](std::int64_t, int) { ++runs; });
      std::exit(runs.load() == 100 ? 7 : 1);  // with the destructors of all that is static
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 7);
  }
  expect_each_once(100, 3);
}

#ifdef __linux__
// Under a limit on processes or memory, the threads that exist do the work.
TEST(ParallelFork, WithoutMoreThreadsFewerDoTheWork) {
  if (support::kSanitized) GTEST_SKIP() << "sanitizers reserve more memory than the limit";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::ifstream file("/proc/self/statm");
    rlim_t pages = 0;
    file >> pages;
    const rlim_t limit = pages * static_cast<rlim_t>(getpagesize()) + (rlim_t{40} << 20U);
    const rlimit memory{limit, limit};
    if (setrlimit(RLIMIT_AS, &memory) != 0) std::_Exit(2);
    std::atomic<int> runs{0};
    try {
      for (int repeat = 0; repeat < 3; ++repeat) rapt::parallel_for(1000, 200, [&](std::int64_t, int) { ++runs; });
    } catch (const std::exception&) {
      std::_Exit(3);
    }
    std::_Exit(runs.load() == 3000 ? 7 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}
#endif

}  // namespace
