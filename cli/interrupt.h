#pragma once

namespace rapt::cli {

// Ctrl-C, or the SIGTERM of a batch queue, while one of these lives: the first asks for a stop at the next good moment,
// the second ends the process as usual. One at a time, for the whole of a command.
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

// The exit status of a command that saved and stopped.
inline constexpr int kInterrupted = 130;

}  // namespace rapt::cli
