#pragma once

#include <span>
#include <string>
#include <vector>

#include "rapt/communicator.h"
#include "training/objective.h"

namespace rapt::inline v1::training {

// The processes of one run, or one alone. The parts of a batch are dealt to them, and what they give is added in the order of
// the parts: the weights have the bits of one process.
class Processes {
 public:
  explicit Processes(Communicator* communicator = nullptr) : communicator_(communicator) {}

  bool alone() const { return !communicator_ || communicator_->size() == 1; }
  // One process writes files.
  bool writes() const { return alone() || communicator_->rank() == 0; }
  bool computes(std::int64_t part) const { return alone() || part % communicator_->size() == communicator_->rank(); }

  // Waits for all.
  void meet() const;
  // "4 processes of " where there are several.
  std::string text() const;

  // parts[0] becomes the sum of all parts in every process; all others become 0. Each has `size` numbers.
  void add_gradients(const std::vector<float*>& parts, std::int64_t size) const;

  // One for each part: everybody gets those of the process that computed it. True where a process wants to stop.
  bool share_sums(std::span<LossSums> sums, bool stop) const;

  // What process 0 has, in all.
  void share(void* data, std::size_t bytes) const;
  void share(std::vector<float>& numbers) const { share(numbers.data(), numbers.size() * sizeof(float)); }

 private:
  Communicator* communicator_;
};

}  // namespace rapt::inline v1::training
