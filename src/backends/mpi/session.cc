#include "backends/mpi/session.h"

#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "attend/counted.h"
#include "backends/mpi/pulse.h"
#include "rapt/mpi.h"
#include "rapt/threads.h"

namespace rapt::inline v1::mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLauncherSeconds = 4;

std::unique_ptr<Communicator> the_world;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Whether a process is a part of Open MPI or MPICH that starts and ends processes. Safe between fork and exit.
bool is_launcher(const char* comm_path) {
  std::array<char, 32> name{};
  const int file = ::open(comm_path, O_RDONLY);
  if (file < 0) return false;
  const auto length = ::read(file, name.data(), name.size() - 1);
  ::close(file);
  if (length <= 0) return false;
  std::string_view text(name.data(), static_cast<std::size_t>(length) - 1);  // without its line's end
  text = text.substr(0, text.find('.'));                                     // mpirun.openmpi, mpiexec.hydra
  return text == "mpirun" || text == "mpiexec" || text == "orterun" || text == "orted" || text == "prterun" ||
         text == "prted" || text == "hydra_pmi_proxy";
}

pid_t parent_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  // After the name, in parentheses, come a letter and the number.
  const std::size_t name_end = line.rfind(')');
  return name_end == std::string::npos || name_end + 4 > line.size() ? 0 : std::atoi(line.c_str() + name_end + 4);
}

struct Launcher {
  pid_t process = 0;
  std::string comm;  // the file that has its name
};

// A launcher that has lost its counterpart waits for minutes. The one that started this process, and its own launcher, get
// some seconds to end by themselves; then a process that outlives this one ends them.
void end_launcher_later() {
  std::vector<Launcher> launchers;
  for (pid_t process = ::getppid(); process > 1; process = parent_of(process)) {
    Launcher launcher{process, "/proc/" + std::to_string(process) + "/comm"};
    if (!is_launcher(launcher.comm.c_str())) break;
    launchers.push_back(std::move(launcher));
  }
  if (launchers.empty() || ::fork() != 0) return;
  // The launcher waits for open files, and ends its process group: this process must hold no file and leave the group.
  ::setsid();
  const auto files = static_cast<int>(::sysconf(_SC_OPEN_MAX));
  for (int file = 0; file < std::min(files, 65536); ++file) ::close(file);
  for (const int signal : {SIGTERM, SIGKILL}) {
    for (int second = 0; second < kLauncherSeconds; ++second) {
      ::sleep(1);
      bool any = false;
      for (const Launcher& launcher : launchers) any = any || is_launcher(launcher.comm.c_str());
      if (!any) ::_exit(0);
    }
    for (const Launcher& launcher : launchers)
      if (is_launcher(launcher.comm.c_str())) ::kill(launcher.process, signal);
  }
  ::_exit(0);
}

// Every process sends heartbeats to the next one, and listens to the one before it. A process that hangs or was
// stopped, or whose machine or link is gone, falls silent; MPI alone would wait for it forever.
class Watch {
 public:
  Watch() {
    MPI_Comm_dup(MPI_COMM_WORLD, &own_);
    MPI_Comm_rank(own_, &rank_);
    MPI_Comm_size(own_, &size_);
    thread_ = std::thread([this] { listen(); });
  }
  ~Watch() {
    stop_ = true;
    thread_.join();
    MPI_Comm_free(&own_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void listen() {
    const int before = (rank_ + size_ - 1) % size_, after = (rank_ + 1) % size_;
    char in = 0;
    const char beat = 0, last = 1;
    MPI_Request receiving = MPI_REQUEST_NULL, sending = MPI_REQUEST_NULL;
    const auto done = [](MPI_Request& request) {
      int flag = 0;
      MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
      return flag != 0;
    };
    MPI_Irecv(&in, 1, MPI_CHAR, before, 0, own_, &receiving);
    Clock::time_point heard = Clock::now(), woke = heard;
    bool ends = false;  // the process before this one, which has said its last
    const auto hear = [&] {
      if (ends || !done(receiving)) return false;
      ends = in == last;
      if (!ends) MPI_Irecv(&in, 1, MPI_CHAR, before, 0, own_, &receiving);
      return true;
    };
    while (!stop_) {
      if (done(sending) && pulse_.beats()) MPI_Isend(&beat, 1, MPI_CHAR, after, 0, own_, &sending);
      // A process that was stopped itself must not blame another.
      if (hear() || ends || seconds_since(woke) > 2) heard = Clock::now();
      woke = Clock::now();
      if (seconds_since(heard) > kSilence) end(before);
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
    }
    // MPI may wait for messages that nobody receives when it is finalised.
    bool said = false, told = false;
    for (const Clock::time_point start = Clock::now(); !(told && ends) && seconds_since(start) < 5;) {
      if (!told && done(sending)) {
        told = said;
        if (!said) MPI_Isend(&last, 1, MPI_CHAR, after, 0, own_, &sending);
        said = true;
      }
      hear();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!ends) {
      MPI_Cancel(&receiving);
      MPI_Request_free(&receiving);
    }
    if (sending != MPI_REQUEST_NULL) MPI_Request_free(&sending);
  }

  void end(int silent) const {
    std::fprintf(
        stderr,
        "rapt: process %d has not been heard from for %.0f seconds, so the run of %d processes ends; files that were "
        "written are whole, and `rapt train --resume` goes on from the last saved state\n",
        silent, kSilence, size_);
    std::fflush(stderr);
    end_launcher_later();
    MPI_Abort(MPI_COMM_WORLD, 3);
  }

  MPI_Comm own_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  Pulse pulse_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Processes of one machine that are not bound to processors of their own divide them.
void share_processors() {
  MPI_Comm machine = MPI_COMM_NULL;
  int here = 1;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  MPI_Comm_size(machine, &here);
  MPI_Comm_free(&machine);
  const auto processors = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  set_default_threads(std::max(1, std::min(default_threads(), processors / here)));
}

// Process 0 speaks for all.
class Silence {
 public:
  Silence() : out_(std::cout.rdbuf(nowhere_.rdbuf())), err_(std::cerr.rdbuf(kept_.rdbuf())) {}
  ~Silence() {
    std::cout.rdbuf(out_);
    std::cerr.rdbuf(err_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  std::string text() const { return kept_.str(); }

 private:
  // Discards, and never fails.
  struct Nowhere : std::streambuf {
    int overflow(int c) override { return c == traits_type::eof() ? 0 : c; }
    std::streamsize xsputn(const char*, std::streamsize n) override { return n; }
  };
  struct NowhereStream {
    Nowhere buffer;
    std::streambuf* rdbuf() { return &buffer; }
  };

  NowhereStream nowhere_;
  std::ostringstream kept_;
  std::streambuf* out_;
  std::streambuf* err_;
};

// Whether all other processes end too, within some seconds.
bool all_end() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (const Clock::time_point start = Clock::now(); seconds_since(start) < 5;) {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void wait_for_all() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; !done;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

Communicator* world() { return the_world.get(); }

int local_rank() {
  if (!the_world) return 0;
  MPI_Comm machine = MPI_COMM_NULL;
  int rank = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  MPI_Comm_rank(machine, &rank);
  MPI_Comm_free(&machine);
  return rank;
}

int run(int argc, const char* const* argv, const std::function<int(int, const char* const*)>& program) {
  const int processes = launched();
  if (processes == 0) return program(argc, argv);
  int level = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
    std::cerr << "rapt: cannot start MPI" << std::endl;
    return 2;
  }
  int status = 0;
  {
    the_world = mpi_communicator(MPI_COMM_WORLD);
    const int rank = the_world->rank();
    // Each would be alone, and all would write the same files.
    if (processes == kSome ? the_world->size() == 1 : the_world->size() != processes) {
      std::cerr << "rapt: expected " << (processes == kSome ? "more than one process" : counted(processes, "process"))
                << ", as the launcher says, got " << the_world->size()
                << " from MPI: it belongs to another MPI than this build's" << std::endl;
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    share_processors();
    // Without thread support in MPI a silent process is not noticed; mpirun still notices one that dies.
    std::unique_ptr<Watch> watch;
    if (level >= MPI_THREAD_MULTIPLE && the_world->size() > 1) watch = std::make_unique<Watch>();
    std::string complaint;
    if (rank == 0) {
      status = program(argc, argv);
    } else {
      const Silence silence;
      status = program(argc, argv);
      complaint = silence.text();
    }
    // All fail alike, or one fails alone: then the others wait for messages that it will never send.
    if (status == 0) {
      wait_for_all();
    } else if (!all_end()) {
      std::cerr << complaint << "rapt: process " << rank << " failed, so the run of " << the_world->size()
                << " processes ends" << std::endl;
      MPI_Abort(MPI_COMM_WORLD, status);
    }
    // Process 0 has spoken for those that failed as it did.
    int first = status;
    the_world->broadcast(&first, sizeof first, 0);
    if (rank > 0 && first == 0) std::cerr << complaint << std::flush;
    if (rank > 0 && first != 0) status = 0;
    watch.reset();
    the_world.reset();
  }
  MPI_Finalize();
  return status;
}

}  // namespace rapt::inline v1::mpi
