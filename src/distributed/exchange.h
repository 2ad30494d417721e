#pragma once

#include <vector>

#include "distributed/work.h"

namespace rapt::inline v1::distributed {

// The slots that a process computes when heads are cut: neighbouring ones.
inline Span slots_of(const Call& call, int rank) {
  return {call.slots->count() * rank / call.size(), call.slots->count() * (rank + 1) / call.size()};
}
inline int slot_owner(const Call& call, std::int64_t slot) {
  return static_cast<int>(((slot + 1) * call.size() - 1) / call.slots->count());
}

// All rows of some slots of an array; bytes of the array's type, one contiguous array for each slot.
class SlotRows {
 public:
  SlotRows() = default;
  // Of an array whose rows are cut as `cut` says; `own` is any process's part of it.
  SlotRows(const Call& call, const ConstView& own, const Cut& cut);

  // `n` counts all slots.
  View at(std::int64_t n) { return views_[static_cast<std::size_t>(n - slots_.begin)]; }

  // All processes' rows of this process's slots; `own` are this process's rows of all slots.
  void collect(const ConstView& own);
  // The inverse.
  void spread(const View& own);

 private:
  const Call* call_ = nullptr;
  const Cut* cut_ = nullptr;
  Span slots_;
  std::vector<std::byte> bytes_;
  std::vector<View> views_;
};

}  // namespace rapt::inline v1::distributed
