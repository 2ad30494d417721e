#include "benchmarks/memory.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>

#include "benchmarks/process_memory.h"
#include "benchmarks/timing.h"
#include "rapt/error.h"

namespace rapt::bench {
namespace {

struct Report {
  std::int64_t arrays = 0, baseline = -1, peak = -1;
  double seconds = 0;
  char error[400] = {};
};

Report measure_here(const Spec& spec, int threads) {
  Report report;
  try {
    report.baseline = memory_now().value_or(-1);
    Workload workload(spec, threads);
    report.seconds = seconds_of([&] {
      workload.prepare_backward(spec.path);
      workload.backward(spec.path);
    });
    report.arrays = static_cast<std::int64_t>(workload.bytes());
    report.peak = memory_peak().value_or(-1);
  } catch (const std::exception& error) {
    std::strncpy(report.error, error.what(), sizeof(report.error) - 1);
  }
  return report;
}

bool write_all(int file, const Report& report) {
  const char* at = reinterpret_cast<const char*>(&report);
  for (std::size_t done = 0; done < sizeof(report);) {
    const ssize_t n = ::write(file, at + done, sizeof(report) - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

// Polls for a stop ten times a second: a signal may come just before a blocking call.
bool read_all(int file, Report& report, const std::function<bool()>& stop) {
  char* at = reinterpret_cast<char*>(&report);
  for (std::size_t done = 0; done < sizeof(report);) {
    if (stop && stop()) throw Stopped{};
    pollfd input{file, POLLIN, 0};
    if (::poll(&input, 1, 100) <= 0) continue;
    const ssize_t n = ::read(file, at + done, sizeof(report) - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

MemoryUse measure_memory(const Spec& spec, int threads, const std::function<bool()>& stop) {
  int ends[2];
  if (::pipe(ends) != 0) throw Error("bench memory: cannot make a pipe: " + std::string(std::strerror(errno)));
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw Error("bench memory: cannot start a process: " + std::string(std::strerror(errno)));
  }
  if (child == 0) {
    ::close(ends[0]);
    const bool told = write_all(ends[1], measure_here(spec, threads));
    // Not exit(), which would write the parent's buffers twice.
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  Report report;
  bool heard = false, stopped = false;
  try {
    heard = read_all(ends[0], report, stop);
  } catch (const Stopped&) {
    stopped = true;
    ::kill(child, SIGKILL);
  }
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (stopped) throw Stopped{};
  if (!heard)
    throw Error("bench memory: " + spec.name + ": the process ended by " +
                (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) + "; was there enough memory?"
                                     : "an error"));
  if (report.error[0] != '\0') throw Error("bench memory: " + spec.name + ": " + report.error);
  if (report.baseline < 0 || report.peak < 0)
    throw Error("bench memory: expected the memory of this process in /proc/self/status, got none");
  return {spec, report.arrays, report.baseline, report.peak, report.seconds};
}

}  // namespace rapt::bench
