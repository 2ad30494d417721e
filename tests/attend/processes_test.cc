// Forks, exits and switches of the SIMD target while others compute: what Python's multiprocessing does every day.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "rapt/attend.h"
#include "rapt/registry.h"
#include "rapt/threads.h"
#include "support/allocations.h"
#include "support/sanitized.h"

// What forks is not called "Threads": the thread sanitizer starts none after a fork.
namespace {

using rapt::view;

constexpr int kRuns = support::unless_sanitized(200, 20);

// A small problem with both passes, and all their outputs.
struct Work {
  static constexpr std::int64_t kLength = 96, kDim = 24;

  explicit Work(int threads) {
    options.threads = threads;
    options.score = rapt::Score(&rapt::mechanism("alibi"));
    options.score.parameters = {{"m", view(slope.data(), {1, 1, 1, 1})}};
    for (std::size_t n = 0; n < x.size(); ++n) x[n] = static_cast<float>((n * 7919) % 101) / 50.0F - 1;
  }

  void run() {
    forward();
    backward();
  }
  void forward() {
    saved = {};
    rapt::attend(inputs(), {.out = {view(out.data(), shape)}, .saved = &saved}, options);
  }
  void backward() {
    rapt::Gradients gradients;
    gradients.q = view(dq.data(), shape);
    gradients.k = view(dk.data(), shape);
    rapt::attend_backward(inputs(), {view(out.data(), shape)}, {view(x.data(), shape)}, &saved, gradients, options);
  }
  rapt::Inputs inputs() { return {view(x.data(), shape), view(x.data(), shape), {view(x.data(), shape)}}; }

  std::vector<float> results() const {
    std::vector<float> all = out;
    all.insert(all.end(), dq.begin(), dq.end());
    all.insert(all.end(), dk.begin(), dk.end());
    return all;
  }

  const rapt::Shape shape{1, 1, kLength, kDim};
  rapt::AttendOptions options;
  rapt::Saved saved;
  std::vector<float> slope{0.25F};
  std::vector<float> x = std::vector<float>(kLength * kDim), out = x, dq = x, dk = x;
};

// Runs f in a child and returns its exit status; −1: a signal ended it. A child that hangs is killed.
template <class F>
int in_child(const F& f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    f();
    std::exit(7);  // with the destructors of all that is static
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -2;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Threads that compute until told to stop.
class Busy {
 public:
  explicit Busy(int count) {
    for (int n = 0; n < count; ++n)
      threads_.emplace_back([this] {
        Work work(2);
        while (!stop_) work.run();
      });
  }
  ~Busy() {
    stop_ = true;
    for (std::thread& t : threads_) t.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

TEST(Processes, AChildComputesAndExits) {
  Work(3).run();
  for (int n = 0; n < kRuns; ++n) ASSERT_EQ(in_child([] { Work(3).run(); }), 7) << "run " << n;
}

TEST(Processes, AChildThatComputesNothingExits) {
  Work(3).run();
  for (int n = 0; n < kRuns; ++n) ASSERT_EQ(in_child([] {}), 7) << "run " << n;
}

TEST(Processes, ForksWhileOthersCompute) {
  if (support::kSanitized)
    GTEST_SKIP() << "a sanitizer's allocator may be locked by a thread that the child does not have";
  const Busy busy(2);
  for (int n = 0; n < kRuns; ++n) ASSERT_EQ(in_child([] { Work(2).run(); }), 7) << "run " << n;
}

// In the thread of the first call: waits before each of its first allocations until the process has forked.
std::atomic<int> waits{0}, forks{0};
thread_local bool is_first = false;

void wait_for_a_fork() {
  constexpr int kMost = 400;
  if (!is_first || waits >= kMost) return;
  const int place = ++waits;
  // A fork may itself wait until the thread has made what children need.
  for (int n = 0; n < 40 && forks < place; ++n) usleep(1000);
}

// In a process that made no call before. Where what the first call makes has a lock, a child waits for the thread for ever.
int fork_during_the_first_call() {
  std::thread first([] {
    is_first = true;
    Work(2).run();
    waits = 1 << 20;
  });
  int failed = 0;
  for (int place = 1; waits < 1 << 20; ++place) {
    while (waits < place) std::this_thread::yield();
    if (waits >= 1 << 20) break;
    const pid_t child = fork();
    if (child == 0) {
      support::call_before_allocations(nullptr);
      alarm(5);
      Work(2).run();
      _exit(7);
    }
    forks = place;
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) ++failed;
    if (failed > 3) break;
  }
  forks = 1 << 20;
  first.join();
  return failed;
}

TEST(ProcessesDeathTest, ForksDuringTheFirstCall) {
  if (support::kSanitized)
    GTEST_SKIP() << "a sanitizer's allocator may be locked by a thread that the child does not have";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        support::call_before_allocations(wait_for_a_fork);
        const int failed = fork_during_the_first_call();
        _exit(failed);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Processes, ExitsWhileAThreadComputes) {
  for (int n = 0; n < kRuns; ++n)
    ASSERT_EQ(in_child([n] {
                std::atomic<int> begun{0};
                std::thread([&begun] {
                  Work work(2);
                  for (;;) {
                    work.run();
                    ++begun;
                    rapt::mechanism("alibi");
                  }
                }).detach();
                while (begun == 0) std::this_thread::yield();
                usleep(static_cast<useconds_t>(37 * n % 400));
              }),
              7)
        << "run " << n;
}

// Every call is computed by one target from its beginning to its end: of two targets, where both passes were switched
// between, each pair of them gives its own bits, and nothing else may be there.
TEST(ThreadsAndTargets, AreSwitchedWhileOthersCompute) {
  const std::vector<rapt::Isa> isas = rapt::available_isas();
  const rapt::Isa before = rapt::active_isa();
  std::vector<std::vector<float>> expected;
  for (const rapt::Isa forward : isas)
    for (const rapt::Isa backward : isas) {
      Work work(1);
      rapt::set_isa(forward);
      work.forward();
      rapt::set_isa(backward);
      work.backward();
      expected.push_back(work.results());
    }
  const int most = support::unless_sanitized(2000, 200);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, calls{0};
  std::vector<std::thread> threads;
  for (int n = 0; n < 8; ++n)
    threads.emplace_back([&, n] {
      Work work(1 + n % 3);
      while (!stop) {
        work.forward();
        work.backward();
        const std::vector<float> got = work.results();
        bool known = false;
        for (const std::vector<float>& e : expected)
          known = known || std::memcmp(e.data(), got.data(), got.size() * sizeof(float)) == 0;
        if (!known) ++wrong;
        ++calls;
      }
    });
  while (calls < most)
    for (const rapt::Isa isa : isas) rapt::set_isa(isa);
  stop = true;
  for (std::thread& t : threads) t.join();
  rapt::set_isa(before);
  EXPECT_EQ(wrong.load(), 0) << "of " << calls.load();
}

}  // namespace
