#pragma once

#include <sys/types.h>

#include <ctime>
#include <string>

namespace rapt::inline v1::mpi {

// Whether a process makes progress, as judged by a dedicated thread: that this thread runs says nothing about the
// others.
class Pulse {
 public:
  // Watches the thread that constructs it, and those to which it gives work.
  Pulse();

  // Whether anything was computed since the last call, or the watched thread waits for a file, a terminal or a
  // processor. False: it is stopped, or waits for another idle thread.
  bool beats();

 private:
  bool waits_for_others() const;

  std::string folder_;  // of the watched thread
  clockid_t clock_{};
  bool has_clock_ = false;
  double own_ = 0, others_ = 0;  // seconds of the watched thread, and of all but this one, when it last beat
};

}  // namespace rapt::inline v1::mpi
