#include "training/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "rapt/error.h"

namespace rapt::inline v1::training {
namespace {

// "process 1234 on host", as the lock's file says.
std::string this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return "process " + std::to_string(::getpid()) + " on " + host.data();
}

std::string owner_of(int file) {
  std::array<char, 320> text{};
  const ssize_t got = ::pread(file, text.data(), text.size() - 1, 0);
  return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : "another process";
}

Error lock_error(const std::filesystem::path& path) {
  return Error("lock '" + path.string() + "': " + std::strerror(errno));
}

// False where the file was removed while this process waited to open or lock it.
bool is_still_at(const std::filesystem::path& path, int file) {
  struct stat named {
  }, open{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(file, &open) == 0 && named.st_ino == open.st_ino &&
         named.st_dev == open.st_dev;
}

int lock(const std::filesystem::path& directory, const std::filesystem::path& path) {
  while (true) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) throw lock_error(path);
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      const bool taken = errno == EWOULDBLOCK;
      const Error error = taken ? Error(directory.string() + " is in use by " + owner_of(file) +
                                        ", which trains there; wait for it, or train into another directory")
                                : lock_error(path);
      ::close(file);
      throw error;
    }
    if (is_still_at(path, file)) return file;
    ::close(file);
  }
}

std::mutex& table_mutex() {
  static std::mutex mutex;
  return mutex;
}

// The locks of this process, by the file's path.
std::map<std::filesystem::path, std::weak_ptr<RunLock>>& table() {
  static std::map<std::filesystem::path, std::weak_ptr<RunLock>> locks;
  return locks;
}

}  // namespace

std::shared_ptr<RunLock> RunLock::acquire(const std::filesystem::path& directory) {
  const std::scoped_lock guard(table_mutex());
  const std::filesystem::path path = std::filesystem::weakly_canonical(directory) / ".lock";
  std::weak_ptr<RunLock>& known = table()[path];
  if (auto held = known.lock()) return held;
  const int file = lock(directory, path);
  std::shared_ptr<RunLock> held(new RunLock(path, file));
  known = held;
  const std::string owner = this_process();
  // What the file says is for the message alone; the lock holds without it.
  if (::ftruncate(file, 0) == 0 && ::pwrite(file, owner.data(), owner.size(), 0) < 0) errno = 0;
  return held;
}

// Removed while it is still locked: a process that opened it meanwhile sees that it is gone and opens the next one.
RunLock::~RunLock() {
  ::unlink(path_.c_str());
  ::close(file_);
}

}  // namespace rapt::inline v1::training
