#pragma once

#include <memory>

#include "distributed/work.h"

namespace rapt::inline v1::distributed {

// The rows of one slot at hand: queries, and the merged rows that they become. total[set] and max, sum are [b, h, rows].
template <class T>
struct ForwardSlot {
  std::int64_t slot = 0;
  ConstView q;
  std::vector<View> total;  // of type T; Σ exp(score − max)·v until finish()
  View max, sum;            // [b, h, rows, 1], of type T: as Saved::Rows has them
};

// Softmax over the keys, a sum or a choice, piece by piece: pieces are merged in the order in which they are added.
template <class T>
class ForwardWork {
 public:
  ForwardWork(const Cells& cells, std::vector<ForwardSlot<T>> slots, std::vector<QueryPiece> pieces);

  void add(std::span<const KeyPieces> keys, const Tasks& tasks);
  // Adds the sink and divides by the sums.
  void finish(const Tasks& tasks);

  const std::vector<ForwardSlot<T>>& slots() const { return slots_; }

 private:
  struct Worker {
    Cells::Workspace workspace;
    std::vector<std::vector<T>> out;
    std::vector<T> max, sum;
    std::vector<View> part;  // of each value set
    View part_max, part_sum;
    Saved saved;  // of a choice
  };

  void add_cell(const ForwardSlot<T>& slot, std::size_t which, const QueryPiece& queries, const KeyPieces& keys,
                int threads, Worker& worker) const;
  void add_rows(const ForwardSlot<T>& slot, const QueryPiece& queries, const Worker& worker) const;
  void merge(const ForwardSlot<T>& slot, const QueryPiece& queries, const Worker& worker) const;
  void choose(const ForwardSlot<T>& slot, const QueryPiece& queries, const Span& keys, const Worker& worker) const;

  const Cells& cells_;
  std::vector<ForwardSlot<T>> slots_;
  std::vector<QueryPiece> pieces_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

extern template class ForwardWork<float>;
extern template class ForwardWork<double>;

}  // namespace rapt::inline v1::distributed
