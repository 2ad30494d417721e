#pragma once

#include <vector>

#include "distributed/cut.h"

namespace rapt::inline v1::distributed {

// The work of every process in every step, known in advance: in step t process r computes with unit t − r, so that
// units pass each process in order and messages need no tags. Step −1 brings process 0 its first unit.
class Schedule {
 public:
  Schedule(const Cut& keys, int rank, int size) : keys_(keys), rank_(rank), size_(size) {}

  std::int64_t first_step() const { return -1; }
  std::int64_t last_step() const { return keys_.units() + size_ - 2; }

  // The unit of a step; −1: none.
  std::int64_t unit_at(std::int64_t step) const;
  bool owns(std::int64_t unit) const { return unit >= 0 && keys_.owner(unit, size_) == rank_; }

  // A message of one step: which unit, and to whom or from whom.
  struct Transfer {
    std::int64_t unit = 0;
    int process = 0;
    bool receives = false;
  };
  // Units sent during a step, for the next one: from their owner to process 0, and from each process to the next.
  std::vector<Transfer> keys(std::int64_t step) const;
  // After the step's work: the sums of its unit, to the next process, or from the last one to the owner of the keys.
  std::vector<Transfer> sums(std::int64_t step) const;

 private:
  std::int64_t unit_of(std::int64_t step, int rank) const;

  Cut keys_;
  int rank_, size_;
};

}  // namespace rapt::inline v1::distributed
