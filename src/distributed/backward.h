#pragma once

#include <memory>
#include <span>

#include "distributed/work.h"

namespace rapt::inline v1::distributed {

// The rows of one slot at hand, and where their gradients go.
template <class T>
struct BackwardSlot {
  std::int64_t slot = 0;
  ConstView q;
  std::vector<ConstView> out, grad_out;
  ConstView grad_lse;
  ConstView max, sum;  // [b, h, rows, 1], of type T, of the whole rows
  // The same shape, of type f64: δ. Where a threshold is solved all of it is there, under softmax the first cell of a row finds
  // it; without data there is none.
  View means;
  View dq;     // of type T; added to; without data: not wanted
  View dbias;  // [b, h, rows, keys]: written; without data: not wanted, or one row for all queries
};

// What is wanted of every cell beside dq.
struct Wanted {
  bool k = false;
  std::vector<bool> v;
  bool bias_row = false;  // of a bias with one row for all queries
  struct Parameter {
    std::string name;
    const ParameterSpec* spec = nullptr;
    Shape shape{};  // of the whole parameter
    bool is_sink = false;
  };
  std::vector<Parameter> parameters;

  Wanted(const Call& call, const Gradients& gradients);
};

// The sums of one piece of keys over all queries, of some slots: gradients of its rows, and its part of those of the
// parameters. They travel as bytes.
template <class T>
class PieceSums {
 public:
  PieceSums(const Call& call, const Wanted& wanted, const KeyPlace& place, const Span& slots);

  struct Sums {
    View k;
    std::vector<View> v;
    View bias_row;
    std::vector<View> parameters;  // of type f64
  };

  void clear();
  std::vector<std::byte>& bytes() { return bytes_; }
  const Sums& slot(std::int64_t n) const { return sums_[static_cast<std::size_t>(n - slots_.begin)]; }
  const KeyPlace& place() const { return place_; }
  const Span& slots() const { return slots_; }

 private:
  KeyPlace place_;
  Span slots_;
  std::vector<std::byte> bytes_;
  std::vector<Sums> sums_;
};

// The shape of a parameter's gradient in one slot.
Shape slot_shape(const Wanted::Parameter& parameter, const Slot& slot);

// Gradients of every piece of queries with a piece of keys, added in the order of the pieces of queries.
template <class T>
class BackwardWork {
 public:
  BackwardWork(const Cells& cells, const Wanted& wanted, std::vector<BackwardSlot<T>> slots,
               std::vector<QueryPiece> pieces);

  // Of the slots of `sums`.
  void add(const KeyPieces& keys, PieceSums<T>& sums, const Tasks& tasks);

 private:
  struct Worker {
    Cells::Workspace workspace;
    Saved saved;
    Gradients cell;
    std::vector<std::vector<T>> numbers;
    std::vector<std::vector<double>> parameters;
  };

  bool load_rows_of(const BackwardSlot<T>& slot, const QueryPiece& queries, const Span& keys, bool known,
                    Saved::Rows& saved) const;
  bool compute_cell(const BackwardSlot<T>& slot, std::size_t which, const QueryPiece& queries, const KeyPieces& keys,
                    const typename PieceSums<T>::Sums& to, int threads, Worker& worker, std::uint8_t& known) const;
  void add_cell(const typename PieceSums<T>::Sums& to, const Worker& worker) const;
  void add_sink(const BackwardSlot<T>& slot, const QueryPiece& queries, const View& to) const;

  const Cells& cells_;
  const Wanted& wanted_;
  std::vector<BackwardSlot<T>> slots_;
  std::vector<QueryPiece> pieces_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::uint8_t> known_;  // [slots][pieces]: δ of these rows
};

extern template class PieceSums<float>;
extern template class PieceSums<double>;
extern template class BackwardWork<float>;
extern template class BackwardWork<double>;

}  // namespace rapt::inline v1::distributed
