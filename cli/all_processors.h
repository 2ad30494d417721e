#pragma once

#include <memory>

#include "rapt/communicator.h"

namespace rapt::cli {

// A launcher may bind every process to processors of its own: one alone would then be measured on a part of what all have.
// While an object lives, all threads of this process may run on the processors of all processes of its machine.
class AllProcessors {
 public:
  // All processes make it together; it does nothing until widen().
  explicit AllProcessors(Communicator& world);
  ~AllProcessors();
  AllProcessors(const AllProcessors&) = delete;
  AllProcessors& operator=(const AllProcessors&) = delete;

  void widen();
  void narrow();
  // How many this process has of its own, and with those of the others.
  int own() const;
  int all() const;

 private:
  struct Set;
  std::unique_ptr<Set> own_, all_;
  bool is_wide_ = false;
};

}  // namespace rapt::cli
