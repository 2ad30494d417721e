#include "cli/interrupt.h"

#include <atomic>
#include <csignal>

namespace rapt::cli {
namespace {

std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch what needs no lock");

}  // namespace

Interrupt::Interrupt() {
  caught = 0;
  for (const int number : {SIGINT, SIGTERM})
    std::signal(number, [](int got) {
      caught = got;
      std::signal(got, SIG_DFL);
    });
}

Interrupt::~Interrupt() {
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
}

int Interrupt::signal() { return caught; }

}  // namespace rapt::cli
