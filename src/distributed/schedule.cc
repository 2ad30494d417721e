#include "distributed/schedule.h"

namespace rapt::inline v1::distributed {

std::int64_t Schedule::unit_of(std::int64_t step, int rank) const {
  const std::int64_t unit = step - rank;
  return unit >= 0 && unit < keys_.units() ? unit : -1;
}

std::int64_t Schedule::unit_at(std::int64_t step) const { return unit_of(step, rank_); }

std::vector<Schedule::Transfer> Schedule::keys(std::int64_t step) const {
  std::vector<Transfer> list;
  const std::int64_t here = unit_of(step, rank_), next = unit_of(step + 1, rank_), home = unit_of(step + 1, 0);
  if (here >= 0 && rank_ + 1 < size_ && keys_.owner(here, size_) != rank_ + 1) list.push_back({here, rank_ + 1, false});
  if (home >= 0 && rank_ > 0 && owns(home)) list.push_back({home, 0, false});
  if (next >= 0 && !owns(next)) list.push_back({next, rank_ == 0 ? keys_.owner(next, size_) : rank_ - 1, true});
  return list;
}

std::vector<Schedule::Transfer> Schedule::sums(std::int64_t step) const {
  std::vector<Transfer> list;
  const int last = size_ - 1;
  const std::int64_t here = unit_of(step, rank_), done = unit_of(step, last);
  if (here >= 0 && rank_ < last) list.push_back({here, rank_ + 1, false});
  if (here >= 0 && rank_ == last && !owns(here)) list.push_back({here, keys_.owner(here, size_), false});
  if (const std::int64_t next = unit_of(step + 1, rank_); next >= 0 && rank_ > 0)
    list.push_back({next, rank_ - 1, true});
  if (done >= 0 && rank_ < last && owns(done)) list.push_back({done, last, true});
  return list;
}

}  // namespace rapt::inline v1::distributed
