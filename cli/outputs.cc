#include "cli/outputs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "backends/mpi/session.h"
#include "rapt/communicator.h"
#include "rapt/error.h"

namespace rapt::cli {
namespace {

namespace fs = std::filesystem;

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

// Permissions alone do not tell: root has them on file systems that refuse files.
int cannot_create_in(const fs::path& directory) {
  std::string name = (directory / ".rapt-XXXXXX").string();
  const int file = ::mkstemp(name.data());
  if (file < 0) return errno;
  ::close(file);
  ::unlink(name.c_str());
  return 0;
}

void check_directory_of(const std::string& argument, const fs::path& path) {
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code ignored;
  if (!fs::exists(directory, ignored))
    throw Error(argument + ": expected a file in a directory that exists, got " + quoted(path));
  if (!fs::is_directory(directory, ignored))
    throw Error(argument + ": expected a file in a directory, got " + quoted(path) + ", where " + quoted(directory) +
                " is a file");
  if (const int reason = cannot_create_in(directory); reason != 0)
    throw Error(argument + ": expected a file that can be written, got " + quoted(path) + ": " + std::strerror(reason));
}

}  // namespace

bool is_standard_output(const std::string& name) {
  if (name == "-" || name == "/dev/stdout") return true;
  struct stat named {};
  struct stat open {};
  return ::stat(name.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &open) == 0 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino && !S_ISCHR(named.st_mode);
}

void check_output_file(const std::string& argument, const fs::path& path) {
  if (path == "-") return;
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (fs::is_directory(path, ignored)) throw Error(argument + ": expected a file, got the directory " + quoted(path));
  if (!fs::exists(status) || fs::is_regular_file(status)) return check_directory_of(argument, path);
  // Devices, pipes and the targets of links are written to directly.
  if (fs::is_symlink(status) && !fs::exists(path, ignored)) {
    const fs::path target = fs::read_symlink(path, ignored);
    return check_directory_of(argument, target.is_absolute() ? target : path.parent_path() / target);
  }
  if (::access(path.c_str(), W_OK) != 0)
    throw Error(argument + ": expected a file that can be written, got " + quoted(path) + ": " + std::strerror(errno));
}

void check_output_directory(const std::string& argument, const fs::path& path) {
  if (path == "-") throw Error(argument + ": expected a directory, got '-', which is standard output");
  std::error_code ignored;
  fs::path there = path.lexically_normal();
  // The deepest part of the path that exists.
  while (!fs::exists(fs::symlink_status(there, ignored)) && there.has_parent_path() && there != there.parent_path())
    there = there.parent_path();
  if (!fs::exists(fs::symlink_status(there, ignored))) there = ".";
  if (!fs::is_directory(there, ignored))
    throw Error(argument + ": expected a directory, got " +
                (there == path.lexically_normal() ? "" : quoted(path) + " below ") + "the file " + quoted(there));
  if (const int reason = cannot_create_in(there); reason != 0)
    throw Error(argument + ": expected a directory that can be written to, got " + quoted(path) + ": " +
                std::strerror(reason));
}

void checked_by_process_0(const std::function<void()>& check) {
  Communicator* const world = mpi::world();
  std::string message;
  try {
    if (!world || world->rank() == 0) check();
  } catch (const Error& error) {
    message = error.what();
  }
  if (world) {
    std::size_t size = message.size();
    world->broadcast(&size, sizeof size, 0);
    message.resize(size);
    world->broadcast(message.data(), size, 0);
  }
  if (!message.empty()) throw Error(message);
}

void check_standard_output(const std::string& verb, StandardOutputs outputs) {
  std::string first;
  for (const auto& [name, is_used] : outputs) {
    if (!is_used) continue;
    if (!first.empty()) throw Error(verb + ": expected one output to standard output, got " + first + " and " + name);
    first = name;
  }
}

}  // namespace rapt::cli
