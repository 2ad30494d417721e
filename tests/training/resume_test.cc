#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "tensor/random.h"
#include "tests/tensor/temporary_directory.h"
#include "tests/training/tiny_run.h"

namespace rapt::training::test {
namespace {

using rapt::test::TemporaryDirectory;
namespace fs = std::filesystem;

void copy_run(const fs::path& from, const fs::path& to) {
  for (const auto& entry : fs::directory_iterator(from))
    fs::copy_file(entry.path(), to / entry.path().filename(), fs::copy_options::overwrite_existing);
}

// Like a new process: a new trainer that knows nothing but the directory.
Bits go_on(const TinyRun& run, const fs::path& directory, const std::function<bool()>& stop = {}) {
  for (;;) {
    const auto trainer = run.trainer(directory);
    if (fs::exists(directory / "state.safetensors")) trainer->resume();
    Observer observer;
    observer.stop = stop;
    if (trainer->run(observer) == Trainer::End::finished) return trainer->values();
  }
}

TEST(Resuming, StoppedAtEveryKthStep) {
  for (const models::ModelConfig& config : {tiny_seq2seq(), tiny_transformer()})
    for (const Optimizer optimizer : {Optimizer::adamw, Optimizer::sgd}) {
      TinyRun run(config);
      run.options.optimizer = optimizer;
      run.options.weight_decay = 0.01;
      run.options.average = optimizer == Optimizer::sgd ? 0.9 : 0;
      const TemporaryDirectory undisturbed;
      const Bits expected = run.train(undisturbed.path());
      for (const int k : {1, 2, 3, 4, 5, 7, 11}) {
        const TemporaryDirectory directory;
        int steps = 0;
        EXPECT_EQ(go_on(run, directory.path(), [&] { return ++steps % k == 0; }), expected) << "every " << k;
        expect_same_run(directory.path(), undisturbed.path(), "every " + std::to_string(k));
        EXPECT_EQ(steps, 12);  // none twice
      }
    }
}

// The same trainer, run again.
TEST(Resuming, TheSameTrainerGoesOn) {
  const TinyRun run;
  const TemporaryDirectory undisturbed;
  const Bits expected = run.train(undisturbed.path());
  const TemporaryDirectory directory;
  const auto trainer = run.trainer(directory.path());
  EXPECT_EQ(finish(*trainer, [] { return true; }), expected);
  expect_same_run(directory.path(), undisturbed.path(), "stopped at every step");
}

// States of every moment, with files beside them that are as old, or newer: what a killed run leaves.
TEST(Resuming, FromCopiesOfEveryMoment) {
  const TinyRun run;
  const TemporaryDirectory undisturbed;
  const Bits expected = run.train(undisturbed.path());
  const TemporaryDirectory directory;
  const TemporaryDirectory moments;
  const auto trainer = run.trainer(directory.path());
  int count = 0;
  // stop() is asked before the save: each copy is of the step before.
  finish(*trainer, [&] {
    if (fs::exists(directory / "state.safetensors")) {
      fs::create_directory(moments.path() / std::to_string(count));
      copy_run(directory.path(), moments.path() / std::to_string(count++));
    }
    return true;
  });
  EXPECT_EQ(count, 11);
  for (int n = 0; n < count; ++n) {
    const fs::path moment = moments.path() / std::to_string(n);
    const std::string state = bytes_of(moment / "state.safetensors");
    EXPECT_EQ(go_on(run, moment), expected) << n;
    expect_same_run(moment, undisturbed.path(), "moment " + std::to_string(n));
    // The last files of the run with an older state.
    copy_run(undisturbed.path(), moment);
    std::ofstream(moment / "state.safetensors", std::ios::binary) << state;
    EXPECT_EQ(go_on(run, moment), expected) << n;
    expect_same_run(moment, undisturbed.path(), "old state " + std::to_string(n));
  }
}

TEST(ResumingThreads, ChangeNoBit) {
  TinyRun run;
  const TemporaryDirectory undisturbed;
  const Bits expected = run.train(undisturbed.path());
  const TemporaryDirectory directory;
  int steps = 0;
  run.threads = 3;
  {
    const auto trainer = run.trainer(directory.path());
    Observer observer;
    observer.stop = [&] { return ++steps == 5; };
    trainer->run(observer);
  }
  run.threads = 2;
  EXPECT_EQ(go_on(run, directory.path()), expected);
  expect_same_run(directory.path(), undisturbed.path(), "threads");
}

// A child that trains and saves after every step, or only after each epoch, is killed at random moments until one
// reaches the end.
void kill_until_finished(const TinyRun& run, bool every_step, const Bits& expected, const fs::path& undisturbed) {
  const TemporaryDirectory directory;
  Random random(every_step ? 1 : 2);
  int kills = 0;
  for (int attempt = 0;; ++attempt) {
    ASSERT_LT(attempt, 400);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        const auto trainer = run.trainer(directory.path());
        if (fs::exists(directory / "state.safetensors")) trainer->resume();
        if (every_step) finish(*trainer, [] { return true; });
        else finish(*trainer);
      } catch (...) {
        ::_exit(3);
      }
      ::_exit(0);
    }
    // More time each round, so that it ends.
    std::this_thread::sleep_for(
        std::chrono::microseconds(200 + random.below(static_cast<std::uint64_t>(4000 + 1500 * attempt))));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0) << "a resumed run failed after " << kills << " kills";
      break;
    }
    ASSERT_TRUE(WIFSIGNALED(status));
    ++kills;
  }
  EXPECT_GE(kills, 1);
  testing::Test::RecordProperty("kills", kills);
  EXPECT_EQ(go_on(run, directory.path()), expected);
  expect_same_run(directory.path(), undisturbed, "killed " + std::to_string(kills) + " times");
}

TEST(Resuming, KilledAtAnyMoment) {
  TinyRun run;
  run.options.epochs = 6;
  run.options.patience = 2;
  const TemporaryDirectory undisturbed;
  const Bits expected = run.train(undisturbed.path());
  kill_until_finished(run, true, expected, undisturbed.path());
  kill_until_finished(run, false, expected, undisturbed.path());
}

}  // namespace
}  // namespace rapt::training::test
