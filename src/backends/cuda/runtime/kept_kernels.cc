#include "backends/cuda/runtime/kept_kernels.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace rapt::inline v1::cuda {
namespace {

constexpr std::string_view kMark = "rapt kernel 1\n";

std::string path_of(const std::string& folder, std::string_view key) { return folder + "/" + digest(key) + ".kernel"; }

// A part of a file: its length, and its bytes.
std::string part(std::string_view bytes) { return std::to_string(bytes.size()) + "\n" + std::string(bytes); }

std::optional<std::string> take_part(std::string_view& rest) {
  const std::size_t line = rest.substr(0, 20).find('\n');
  if (line == std::string_view::npos || line == 0) return std::nullopt;
  std::size_t count = 0;
  for (const char c : rest.substr(0, line)) {
    if (c < '0' || c > '9') return std::nullopt;
    count = count * 10 + static_cast<std::size_t>(c - '0');
  }
  rest.remove_prefix(line + 1);
  if (count > rest.size()) return std::nullopt;
  std::string bytes(rest.substr(0, count));
  rest.remove_prefix(count);
  return bytes;
}

}  // namespace

std::string kernel_folder() {
  if (const char* own = std::getenv("RAPT_KERNEL_CACHE")) return own;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/')
    return std::string(cache) + "/rapt/kernels";
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.cache/rapt/kernels" : "";
}

std::string digest(std::string_view bytes) {
  std::uint64_t a = 0xCBF29CE484222325, b = 0x9E3779B97F4A7C15;
  for (const char c : bytes) {
    const auto byte = static_cast<std::uint64_t>(static_cast<unsigned char>(c));
    a = (a ^ byte) * 0x100000001B3;
    b = (b ^ (byte + 0x2D)) * 0xBF58476D1CE4E5B9;
    b ^= b >> 29;
  }
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b));
  return text;
}

std::optional<CompiledKernel> find_kept(const std::string& folder, std::string_view key) {
  if (folder.empty()) return std::nullopt;
  std::ifstream file(path_of(folder, key), std::ios::binary);
  if (!file) return std::nullopt;
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::string_view rest = bytes;
  if (!rest.starts_with(kMark)) return std::nullopt;
  rest.remove_prefix(kMark.size());
  const auto made_from = take_part(rest), name = take_part(rest), sum = take_part(rest), image = take_part(rest);
  if (!image || !rest.empty() || *made_from != key || digest(*image) != *sum) return std::nullopt;
  return CompiledKernel{*name, *image, true};
}

void keep(const std::string& folder, std::string_view key, const CompiledKernel& kernel) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = path_of(folder, key), own = path + "." + std::to_string(getpid());
  {
    std::ofstream file(own, std::ios::binary | std::ios::trunc);
    file << kMark << part(key) << part(kernel.name) << part(digest(kernel.image)) << part(kernel.image);
    file.close();
    if (!file) {
      std::filesystem::remove(own, error);
      return;
    }
  }
  std::filesystem::rename(own, path, error);
  if (error) std::filesystem::remove(own, error);
}

}  // namespace rapt::inline v1::cuda
