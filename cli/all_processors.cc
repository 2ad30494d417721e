#include "cli/all_processors.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

namespace rapt::cli {

struct AllProcessors::Set {
  cpu_set_t processors;
  std::array<char, 256> machine;

  // Threads inherit the processors of the thread that starts them.
  void give_to_all_threads() const {
    std::error_code error;
    for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end;
         at.increment(error))
      ::sched_setaffinity(std::atoi(at->path().filename().c_str()), sizeof processors, &processors);
  }
};

AllProcessors::AllProcessors(Communicator& world) : own_(std::make_unique<Set>()), all_(std::make_unique<Set>()) {
  std::memset(own_.get(), 0, sizeof(Set));
  ::gethostname(own_->machine.data(), own_->machine.size() - 1);
  ::sched_getaffinity(0, sizeof own_->processors, &own_->processors);
  *all_ = *own_;
  const std::vector<std::byte> bytes = world.all_gather(own_.get(), sizeof(Set));
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Set)) {
    Set one;
    std::memcpy(&one, bytes.data() + at, sizeof one);
    if (one.machine == own_->machine) CPU_OR(&all_->processors, &all_->processors, &one.processors);
  }
}

AllProcessors::~AllProcessors() { narrow(); }

void AllProcessors::widen() {
  if (own() == all()) return;
  all_->give_to_all_threads();
  is_wide_ = true;
}

void AllProcessors::narrow() {
  if (is_wide_) own_->give_to_all_threads();
  is_wide_ = false;
}

int AllProcessors::own() const { return CPU_COUNT(&own_->processors); }
int AllProcessors::all() const { return CPU_COUNT(&all_->processors); }

}  // namespace rapt::cli
