#pragma once

#include <vector>

#include "distributed/backward.h"
#include "distributed/forward.h"

namespace rapt::inline v1::distributed {

// Keys and values of all processes, of every slot: they come round as in the ring, and stay.
class AllKeys {
 public:
  explicit AllKeys(const Call& call);

  const KeyPieces& pieces() const { return pieces_; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  KeyPieces pieces_;
};

// Where a threshold is solved from all scores of a row: pieces of queries, each against all keys at once.
template <class T>
class WholeRows {
 public:
  // `keys` are those of the slots, in their order.
  WholeRows(const Cells& cells, std::vector<QueryPiece> pieces, const KeyPieces& keys)
      : cells_(cells), pieces_(std::move(pieces)), keys_(keys) {}

  void forward(const std::vector<ForwardSlot<T>>& slots, const Tasks& tasks) const;
  // Fills the slots' means, before gradients are computed piece by piece.
  void find_means(const std::vector<BackwardSlot<T>>& slots, const Tasks& tasks) const;

 private:
  struct Worker {
    Cells::Workspace workspace;
    Saved saved;
  };

  void compute(const ForwardSlot<T>& slot, std::size_t which, const QueryPiece& queries, int threads,
               Worker& worker) const;
  void compute_means(const BackwardSlot<T>& slot, std::size_t which, const QueryPiece& queries, int threads,
                     Worker& worker) const;
  template <class F>
  void run(std::size_t slots, const Tasks& tasks, const F& f) const;

  const Cells& cells_;
  std::vector<QueryPiece> pieces_;
  const KeyPieces& keys_;
};

extern template class WholeRows<float>;
extern template class WholeRows<double>;

}  // namespace rapt::inline v1::distributed
