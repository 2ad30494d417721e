#pragma once

namespace rapt::cli {

// Handles Ctrl-C, and the SIGTERM of a batch queue, during its lifetime: the first asks the command to stop when it
// can, the second ends the process as usual. At most one object at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // The signal that came, or 0.
  static int signal();
  static bool asked() { return signal() != 0; }
};

// The exit status of a command that saved its work and stopped.
inline constexpr int kInterrupted = 130;

}  // namespace rapt::cli
