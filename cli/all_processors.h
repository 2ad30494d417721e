#pragma once

#include <memory>

#include "rapt/communicator.h"

namespace rapt::cli {

// Launchers bind each process to processors of its own; one process measured alone would have only those.
// While an object lives, threads of this process may run on those of all processes on its machine.
class AllProcessors {
 public:
  // A collective call: all processes make the object. It does nothing until widen().
  explicit AllProcessors(Communicator& world);
  ~AllProcessors();
  AllProcessors(const AllProcessors&) = delete;
  AllProcessors& operator=(const AllProcessors&) = delete;

  void widen();
  void narrow();
  // How many processors this process has alone, and together with the others.
  int own() const;
  int all() const;

 private:
  struct Set;
  std::unique_ptr<Set> own_, all_;
  bool is_wide_ = false;
};

}  // namespace rapt::cli
