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
  View dq;             // of type T; added to; without data: not wanted
  View dbias;          // [b, h, rows, keys]: written; without data: not wanted, or one row for all queries
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

// The sums of one unit of keys over all queries: gradients of its rows, and its part of those of the parameters. They travel
// as bytes.
template <class T>
class UnitSums {
 public:
  // Of slots [first, end).
  UnitSums(const Call& call, const Wanted& wanted, std::int64_t unit, const Span& slots);

  struct Piece {
    View k;
    std::vector<View> v;
    View bias_row;
  };
  struct Sums {
    std::array<Piece, 2> pieces;   // early, late
    std::vector<View> parameters;  // of type f64
  };

  void clear();
  std::vector<std::byte>& bytes() { return bytes_; }
  const Sums& slot(std::int64_t n) const { return sums_[static_cast<std::size_t>(n - slots_.begin)]; }
  std::int64_t unit() const { return unit_; }

 private:
  std::int64_t unit_;
  Span slots_;
  std::vector<std::byte> bytes_;
  std::vector<Sums> sums_;
};

// The shape of a parameter's gradient in one slot.
Shape slot_shape(const Wanted::Parameter& parameter, const Slot& slot);

// Gradients of every piece of queries with a unit of keys, added in the order of the pieces.
template <class T>
class BackwardWork {
 public:
  BackwardWork(const Cells& cells, const Wanted& wanted, std::vector<BackwardSlot<T>> slots,
               std::vector<QueryPiece> pieces);

  void add(std::span<const KeyPieces> keys, UnitSums<T>& sums, const Tasks& tasks);

 private:
  struct Worker {
    Cells::Workspace workspace;
    Saved saved;
    std::vector<std::vector<T>> numbers;
    std::vector<std::vector<double>> parameters;
  };

  void add_cell(const BackwardSlot<T>& slot, std::size_t which, const QueryPiece& queries, const KeyPieces& keys,
                const typename UnitSums<T>::Piece& to, const std::vector<View>& parameters, int threads,
                Worker& worker) const;
  void add_sink(const BackwardSlot<T>& slot, const QueryPiece& queries, const View& to) const;

  const Cells& cells_;
  const Wanted& wanted_;
  std::vector<BackwardSlot<T>> slots_;
  std::vector<QueryPiece> pieces_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

extern template class UnitSums<float>;
extern template class UnitSums<double>;
extern template class BackwardWork<float>;
extern template class BackwardWork<double>;

}  // namespace rapt::inline v1::distributed
