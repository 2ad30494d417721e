#include "tensor/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <system_error>

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1 {
namespace fs = std::filesystem;

namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FilePointer = std::unique_ptr<std::FILE, Close>;

Error file_error(const char* operation, const fs::path& path, const std::string& why) {
  return Error(std::string(operation) + " '" + path.string() + "': " + why);
}

// A hidden name, unique within this process and among running ones.
fs::path temporary_name(const fs::path& target) {
  static std::atomic<unsigned> counter{0};
  return target.parent_path() / (".rapt-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp");
}

// Flushes to the disk before the rename: a power cut leaves the old file or the whole new one. 0, or the errno.
int flush_to_disk(std::FILE* file) {
  if (std::fflush(file) != 0) return errno;
  if (::fsync(::fileno(file)) == 0) return 0;
  // Some file systems cannot promise this; that is no failure to write.
  return errno == EINVAL || errno == ENOTSUP ? 0 : errno;
}

void write_streamed(const fs::path& path, const fs::path& shown,
                    const std::function<void(const StagedFiles::Sink&)>& write) {
  // "x": never over a file that is already there.
  FilePointer file(std::fopen(path.c_str(), "wbx"));
  if (!file) throw file_error("write", shown, std::strerror(errno));
  bool good = true;
  int reason = 0;
  try {
    write([&](std::span<const std::byte> part) {
      if (!good || part.empty()) return;
      good = std::fwrite(part.data(), 1, part.size(), file.get()) == part.size();
      if (!good) reason = errno;
    });
  } catch (...) {
    std::remove(path.c_str());
    throw;
  }
  // A full disk may show only when the last bytes are flushed.
  if (good) {
    reason = flush_to_disk(file.get());
    good = reason == 0;
  }
  if (std::fclose(file.release()) != 0 && good) {
    good = false;
    reason = errno;
  }
  if (!good) {
    std::remove(path.c_str());
    throw file_error("write", shown, std::strerror(reason));
  }
}

// A name that rename() must not replace: something other than a regular file, or a link.
bool is_written_through(const fs::path& path) {
  if (path == "-") return true;
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status);
}

// The stream of this process that the name stands for: "-", or another name of the file behind standard output or
// standard error, which would be overwritten from its start if it were opened again.
std::ostream* standard_stream(const fs::path& path) {
  if (path == "-") return &std::cout;
  struct stat named {};
  if (::stat(path.c_str(), &named) != 0) return nullptr;
  const auto is_behind = [&](int descriptor) {
    struct stat open {};
    return ::fstat(descriptor, &open) == 0 && named.st_dev == open.st_dev && named.st_ino == open.st_ino;
  };
  return is_behind(STDOUT_FILENO) ? &std::cout : is_behind(STDERR_FILENO) ? &std::cerr : nullptr;
}

void write_through(const fs::path& path, std::string_view bytes) {
  if (std::ostream* stream = standard_stream(path)) {
    stream->write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!stream->flush())
      throw Error(std::string("cannot write to the standard ") + (stream == &std::cout ? "output" : "error"));
    return;
  }
  FilePointer file(std::fopen(path.c_str(), "wb"));
  if (!file) throw file_error("write", path, std::strerror(errno));
  const bool good = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  const int reason = errno;
  if (std::fclose(file.release()) != 0 || !good) throw file_error("write", path, std::strerror(good ? errno : reason));
}

}  // namespace

std::uint64_t regular_file_size(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw file_error("read", path, error ? error.message() : "there is no such file");
  if (fs::is_directory(status)) throw file_error("read", path, "expected a file, got a directory");
  if (!fs::is_regular_file(status)) throw file_error("read", path, "expected a regular file, got a device or a pipe");
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) throw file_error("read", path, error.message());
  return size;
}

std::string read_file(const fs::path& path, std::uint64_t limit) {
  const std::uint64_t size = regular_file_size(path);
  if (size > limit)
    throw file_error("read", path, "expected at most " + counted(limit, "byte") + ", got " + std::to_string(size));
  const FilePointer file(std::fopen(path.c_str(), "rb"));
  if (!file) throw file_error("read", path, std::strerror(errno));
  std::string bytes(size, '\0');
  const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), file.get());
  if (std::ferror(file.get())) throw file_error("read", path, std::strerror(errno));
  bytes.resize(got);
  return bytes;
}

StagedFiles::~StagedFiles() {
  std::error_code ignored;
  for (const Entry& entry : entries_)
    if (!entry.temporary.empty()) fs::remove(entry.temporary, ignored);
  // Removes only empty directories: remove() refuses the others.
  for (auto path = made_directories_.rbegin(); path != made_directories_.rend(); ++path) fs::remove(*path, ignored);
}

void StagedFiles::make_directory(const fs::path& path) {
  if (path.empty()) throw Error("make directory: expected a name, got none");
  fs::path current;
  for (const fs::path& part : path) {
    current /= part;
    std::error_code error;
    if (fs::is_directory(current, error)) continue;
    if (!fs::create_directory(current, error))
      throw file_error("make directory", path,
                       error ? error.message() : "expected a directory, got the file '" + current.string() + "'");
    made_directories_.push_back(current);
  }
}

void StagedFiles::add(const fs::path& path, std::initializer_list<std::span<const std::byte>> parts) {
  add_parts(path, {parts.begin(), parts.size()});
}

void StagedFiles::add_parts(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  add_streamed(path, [&](const Sink& sink) {
    for (const std::span<const std::byte> part : parts) sink(part);
  });
}

void StagedFiles::add_streamed(const fs::path& path, const std::function<void(const Sink&)>& write) {
  std::error_code error;
  if (fs::is_directory(path, error)) throw file_error("write", path, "expected a file, got a directory");
  entries_.reserve(entries_.size() + 1);
  if (is_written_through(path)) {
    Entry entry{{}, path, {}};
    write([&](std::span<const std::byte> part) {
      entry.bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
    });
    entries_.push_back(std::move(entry));
    return;
  }
  Entry entry{temporary_name(path), path, {}};
  write_streamed(entry.temporary, path, write);
  // The new file gets the permissions of the old one.
  if (const fs::file_status old = fs::status(path, error); fs::exists(old))
    fs::permissions(entry.temporary, old.permissions(), error);
  entries_.push_back(std::move(entry));
}

void StagedFiles::add(const fs::path& path, std::string_view text) {
  add(path, {std::as_bytes(std::span(text.data(), text.size()))});
}

void StagedFiles::commit() {
  for (const Entry& entry : entries_) {
    if (entry.temporary.empty()) {
      write_through(entry.target, entry.bytes);
      continue;
    }
    std::error_code error;
    fs::rename(entry.temporary, entry.target, error);
    if (error) throw file_error("write", entry.target, error.message());
  }
  entries_.clear();
  made_directories_.clear();
}

void write_file(const fs::path& path, std::string_view bytes) {
  StagedFiles files;
  files.add(path, bytes);
  files.commit();
}

}  // namespace rapt::inline v1
