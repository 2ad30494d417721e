#pragma once

#include <filesystem>
#include <memory>

namespace rapt::inline v1::training {

// One process at a time trains in a run's directory. The kernel releases the lock when the process ends, however it
// ends.
class RunLock {
 public:
  // Throws rapt::Error naming the process that holds it. Within one process the lock is shared.
  static std::shared_ptr<RunLock> acquire(const std::filesystem::path& directory);

  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  RunLock(std::filesystem::path path, int file) : path_(std::move(path)), file_(file) {}

  std::filesystem::path path_;
  int file_;
};

}  // namespace rapt::inline v1::training
