#pragma once

#include <sys/types.h>

#include <ctime>
#include <string>

namespace rapt::inline v1::mpi {

// Whether a process gets on, as a thread of it that does nothing else can tell: that this thread runs says nothing of the
// others.
class Pulse {
 public:
  // Watches the thread that makes it, and those that it gives work to.
  Pulse();

  // Whether something was computed since the last time, or the watched thread waits for a file, a terminal or a processor.
  // False: it is stopped, or waits for another thread that does nothing either.
  bool beats();

 private:
  bool waits_for_others() const;

  std::string folder_;  // of the watched thread
  clockid_t clock_{};
  bool has_clock_ = false;
  double own_ = 0, others_ = 0;  // seconds of the watched thread, and of all but this one, when it last beat
};

}  // namespace rapt::inline v1::mpi
