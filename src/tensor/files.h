#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::inline v1 {

// Bytes. A larger file is not text that a person wrote.
inline constexpr std::uint64_t kTextLimit = std::uint64_t{1} << 28;

// The contents of a regular file. Throws rapt::Error if it cannot be read or exceeds the limit.
std::string read_file(const std::filesystem::path& path, std::uint64_t limit = kTextLimit);

// The size of a regular file; throws for anything else.
std::uint64_t regular_file_size(const std::filesystem::path& path);

// Files that appear together: each is written under a temporary name, and commit() renames them all; without it they,
// and the directories made for them, are removed. Only regular files are replaced: commit() writes to a device, a pipe
// or the target of a link. "-" is standard output.
class StagedFiles {
 public:
  StagedFiles() = default;
  ~StagedFiles();
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;

  // Creates the directory and its parents if they are missing.
  void make_directory(const std::filesystem::path& path);

  // The concatenation of the parts.
  void add(const std::filesystem::path& path, std::initializer_list<std::span<const std::byte>> parts);
  void add(const std::filesystem::path& path, std::string_view text);
  void add_parts(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);

  // Whatever `write` hands over.
  using Sink = std::function<void(std::span<const std::byte>)>;
  void add_streamed(const std::filesystem::path& path, const std::function<void(const Sink&)>& write);

  void commit();

 private:
  struct Entry {
    std::filesystem::path temporary;  // empty: the bytes are written to the target itself
    std::filesystem::path target;
    std::string bytes;
  };
  std::vector<Entry> entries_;
  std::vector<std::filesystem::path> made_directories_;
};

// One file, written as StagedFiles does: readers see the old one or the new one, never a part.
void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace rapt::inline v1
