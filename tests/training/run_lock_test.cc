#include "training/run_lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/tensor/temporary_directory.h"
#include "tests/training/tiny_run.h"

namespace rapt::training::test {
namespace {

namespace fs = std::filesystem;
using rapt::test::TemporaryDirectory;

// Another process that holds the lock until it is killed. It says so through a pipe.
pid_t holder_of(const fs::path& directory) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = RunLock::acquire(directory);
    if (::write(ends[1], "x", 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  if (::read(ends[0], &byte, 1) != 1) ADD_FAILURE() << "the other process got no lock";
  ::close(ends[0]);
  ::close(ends[1]);
  return child;
}

TEST(RunLock, NamesTheProcessThatHasIt) {
  const TemporaryDirectory directory;
  const pid_t other = holder_of(directory.path());
  ASSERT_GT(other, 0);
  const std::string message = error_of([&] { RunLock::acquire(directory.path()); });
  EXPECT_NE(message.find("process " + std::to_string(other) + " "), std::string::npos) << message;
  EXPECT_NE(message.find(directory.path().string()), std::string::npos) << message;
  // A trainer does not start there either, and leaves the run unchanged.
  TinyRun run;
  const auto trainer = run.trainer(directory.path());
  EXPECT_NE(error_of([&] { trainer->run({}); }).find("in use by process"), std::string::npos);
  EXPECT_FALSE(fs::exists(directory.path() / "state.safetensors"));

  // The kernel releases it with the process, however that ends.
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_NO_THROW(RunLock::acquire(directory.path()));
}

TEST(RunLock, IsSharedWithinAProcessAndGoneWithItsLastHolder) {
  const TemporaryDirectory directory;
  {
    const auto first = RunLock::acquire(directory.path());
    const auto second = RunLock::acquire(directory.path() / "." / "");
    EXPECT_EQ(first, second);
    EXPECT_TRUE(fs::exists(directory.path() / ".lock"));
  }
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

}  // namespace
}  // namespace rapt::training::test
