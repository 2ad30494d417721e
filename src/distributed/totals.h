#pragma once

#include "distributed/backward.h"

namespace rapt::inline v1::distributed {

// Turns sums of pieces into the call's gradients of parameters and of a bias with one row. Pieces are added in order,
// and then slots.
template <class T>
class Totals {
 public:
  Totals(const Call& call, const Wanted& wanted);

  void add(const PieceSums<T>& sums);
  // If slots were added in several processes: all get each slot from its `owner`.
  template <class Owner>
  void share_slots(const Owner& owner);
  // From the process that added everything to all.
  void share_all(int from);
  void store(const Gradients& gradients) const;

 private:
  const Call& call_;
  const Wanted& wanted_;
  std::vector<std::vector<std::vector<double>>> parameters_;  // [slot][parameter]
  std::vector<Block<T>> bias_rows_;                           // [slot]: [b, h, 1, keys]
};

template <class T>
template <class Owner>
void Totals<T>::share_slots(const Owner& owner) {
  for (std::size_t n = 0; n < parameters_.size(); ++n) {
    const int from = owner(static_cast<std::int64_t>(n));
    for (std::vector<double>& numbers : parameters_[n])
      call_.communicator->broadcast(numbers.data(), numbers.size() * sizeof(double), from);
    if (wanted_.bias_row) {
      std::vector<T>& numbers = bias_rows_[n].numbers();
      call_.communicator->broadcast(numbers.data(), numbers.size() * sizeof(T), from);
    }
  }
}

extern template class Totals<float>;
extern template class Totals<double>;

}  // namespace rapt::inline v1::distributed
