#include "backends/mpi/pulse.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace rapt::inline v1::mpi {
namespace {

// Less may come from a library's idle threads.
constexpr double kWork = 0.01;

double seconds_of(clockid_t clock) {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Waits that another thread of this process or a timeout ends; all others end from outside.
bool is_idle(long call) {
  constexpr std::array kIdle{static_cast<long>(SYS_futex), static_cast<long>(SYS_nanosleep),
                             static_cast<long>(SYS_clock_nanosleep)};
  for (const long idle : kIdle)
    if (call == idle) return true;
  return false;
}

// A letter, or 0: what cannot be read counts as waiting, so that no process is ended by mistake.
char state_of(const std::string& folder) {
  const std::string stat = line_of(folder + "stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '\0' : stat[name_end + 2];
}

// The thread that is waited for may wait for a disk itself.
bool any_reads_a_disk() {
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end; at.increment(error))
    if (state_of(at->path().string() + "/") == 'D') return true;
  return false;
}

}  // namespace

Pulse::Pulse() {
#ifdef SYS_gettid
  folder_ = "/proc/self/task/" + std::to_string(::syscall(SYS_gettid)) + "/";
#endif
  has_clock_ = ::pthread_getcpuclockid(::pthread_self(), &clock_) == 0;
}

bool Pulse::beats() {
  const double own = has_clock_ ? seconds_of(clock_) : 0;
  const double others = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID);
  if (own <= own_ && others < others_ + kWork && !waits_for_others()) return false;
  own_ = own;
  others_ = others;
  return true;
}

bool Pulse::waits_for_others() const {
  const char state = state_of(folder_);
  if (state == 't' || state == 'T') return false;
  if (state != 'S') return true;
  const std::string call = line_of(folder_ + "syscall");
  return call.empty() || !is_idle(std::strtol(call.c_str(), nullptr, 10)) || any_reads_a_disk();
}

}  // namespace rapt::inline v1::mpi
