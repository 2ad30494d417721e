#include "benchmarks/process_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "rapt/threads.h"

namespace rapt::bench {
namespace {

std::optional<std::int64_t> kilobytes_line(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::int64_t kilobytes = 0;
    if (word == name && file >> kilobytes) return kilobytes * 1024;
  }
  return std::nullopt;
}

// Resets the peak to the current use.
bool reset_peak() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;
  return clear.good();
}

void give_back_freed() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace

std::optional<std::int64_t> memory_now() { return kilobytes_line("/proc/self/status", "VmRSS:"); }

std::optional<std::int64_t> memory_peak() { return kilobytes_line("/proc/self/status", "VmHWM:"); }

std::int64_t memory_available() {
  constexpr std::int64_t kUnknown = std::int64_t{1} << 30;
  return kilobytes_line("/proc/meminfo", "MemAvailable:").value_or(kUnknown);
}

std::optional<std::int64_t> peak_growth(const std::function<void()>& work) {
  release_workspace();
  give_back_freed();
  const bool can = reset_peak();
  const std::optional<std::int64_t> before = memory_now();
  work();
  const std::optional<std::int64_t> peak = memory_peak();
  if (!can || !before || !peak) return std::nullopt;
  return std::max<std::int64_t>(*peak - *before, 0);
}

}  // namespace rapt::bench
