// Which processes count as hung: threads of this one stand for them.

#include "backends/mpi/pulse.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace {

void look_later() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

// Three beats within some seconds, on however busy a machine.
bool lives(rapt::mpi::Pulse& pulse) {
  int beats = 0;
  for (int look = 0; look < 500 && beats < 3; ++look) {
    look_later();
    beats += pulse.beats() ? 1 : 0;
  }
  return beats == 3;
}

// None in ten looks one after the other, once it has come to rest.
bool hangs(rapt::mpi::Pulse& pulse) {
  int silent = 0;
  for (int look = 0; look < 500 && silent < 10; ++look) {
    look_later();
    silent = pulse.beats() ? 0 : silent + 1;
  }
  return silent == 10;
}

// Whether `is_so` of a thread that does `work`; `end` makes it return.
bool holds(bool (*is_so)(rapt::mpi::Pulse&), const std::function<void()>& work, const std::function<void()>& end) {
  std::atomic<rapt::mpi::Pulse*> made = nullptr;
  std::thread watched([&] {
    rapt::mpi::Pulse pulse;
    made = &pulse;
    work();
  });
  while (made == nullptr) std::this_thread::yield();
  const bool result = is_so(*made.load());
  end();
  watched.join();
  return result;
}

TEST(Pulse, OfAThreadThatComputesOrPolls) {
  std::atomic<bool> stop = false;
  const auto end = [&] { stop = true; };
  EXPECT_TRUE(holds(
      lives,
      [&] {
        while (!stop) {
        }
      },
      end));
  stop = false;
  // As all that wait for messages do.
  EXPECT_TRUE(holds(
      lives,
      [&] {
        while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      },
      end));
}

// Waiting for a thread that computes is work; waiting for one that waits too is not.
TEST(Pulse, OfAThreadThatWaitsForAnother) {
  for (const bool works : {true, false}) {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::atomic<bool> stop = false;
    std::thread worker([&] {
      while (works && !stop) {
      }
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return done; });
    });
    const bool result = holds(
        works ? lives : hangs,
        [&] {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return done; });
        },
        [&] {
          stop = true;
          const std::lock_guard lock(mutex);
          done = true;
          changed.notify_all();
        });
    worker.join();
    EXPECT_TRUE(result) << works;
  }
}

// A terminal that nobody answers, a pipe that nobody reads: the process is alive.
TEST(Pulse, OfAThreadThatWaitsForTheOutside) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  EXPECT_TRUE(holds(
      lives,
      [&] {
        char letter = 0;
        EXPECT_EQ(::read(pipe[0], &letter, 1), 1);
      },
      [&] { EXPECT_EQ(::write(pipe[1], "x", 1), 1); }));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace
