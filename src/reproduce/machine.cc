#include "reproduce/machine.h"

#include <sys/utsname.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "rapt/threads.h"

#ifndef RAPT_VERSION
#define RAPT_VERSION "unknown"
#endif

namespace rapt::reproduce {
namespace {

// The text behind "NAME : " of the first line that begins so.
std::string fact_of(const char* file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t first = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (first != std::string::npos) return line.substr(first);
  }
  return "";
}

std::string processor() {
  for (const char* name : {"model name", "Model", "CPU part"})
    if (std::string text = fact_of("/proc/cpuinfo", name); !text.empty()) return text;
  return "unknown";
}

std::string memory() {
  const std::string text = fact_of("/proc/meminfo", "MemTotal");
  if (text.empty()) return "unknown";
  const double kibibytes = std::strtod(text.c_str(), nullptr);
  return std::to_string(std::lround(kibibytes / (1 << 20))) + " GiB";
}

std::string system_name() {
  utsname names{};
  if (::uname(&names) != 0) return "unknown";
  return std::string(names.sysname) + " " + names.release + ", " + names.machine;
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  char text[40];
  if (!::gmtime_r(&time, &parts) || std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts) == 0)
    return "unknown";
  return text;
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "GCC " __VERSION__;
#else
  return "unknown";
#endif
}

std::string targets() {
  std::string text = std::string(name_of(active_isa())) + " (this processor can run";
  for (const Isa isa : available_isas()) text += std::string(" ") + name_of(isa);
  return text + ")";
}

}  // namespace

Machine this_machine() {
  return {{{"processor", processor()},
           {"cores for this process", std::to_string(default_threads())},
           {"SIMD target", targets()},
           {"memory", memory()},
           {"system", system_name()},
           {"compiler", compiler()},
           {"Rapt", RAPT_VERSION},
           {"date", now()}}};
}

}  // namespace rapt::reproduce
