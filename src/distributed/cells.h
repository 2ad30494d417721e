#pragma once

#include <vector>

#include "distributed/call.h"
#include "distributed/site.h"

namespace rapt::inline v1::distributed {

// A piece of queries: where it stands in the sequence, and its first row in the arrays at hand.
struct QueryPiece {
  Span rows;
  std::int64_t at = 0;
};

// The pieces of some units, in the order in which they are added up: unit by unit, early before late.
std::vector<QueryPiece> query_pieces(const Cut& cut, const Span& units);

// Keys and values of one piece, of all slots; arrays of the piece alone.
struct KeyPiece {
  Span rows;
  ConstView k;
  std::vector<ConstView> v;
};

// What a cell, a piece of queries against a piece of keys in one slot, says to attend().
class Cells {
 public:
  // `bias` and `dense` have the rows at hand and all keys.
  // `site`: where masks are made that hide what ranges hide; null: in ordinary memory.
  explicit Cells(const Call& call, Site* site = nullptr);

  // Memory that one worker describes its cells with.
  struct Workspace {
    AttendOptions options;
    std::vector<std::int64_t> begin, end;
    std::vector<std::uint8_t> visible;
    void* visible_on_device = nullptr;
    std::size_t visible_bytes = 0;
  };

  // False: no query sees a key. Else workspace.options are those of the cell.
  bool describe(std::int64_t slot, const QueryPiece& queries, const Span& keys, int threads,
                Workspace& workspace) const;

  std::int64_t slots() const { return static_cast<std::int64_t>(slots_.size()); }
  const Slot& slot(std::int64_t n) const { return slots_[static_cast<std::size_t>(n)]; }
  // What the hooks of a slot's cells are told of the whole call.
  OuterCall outer(std::int64_t n) const;
  const Call& call() const { return call_; }

 private:
  // Which keys the masks but the dense one leave the queries, whose ranges are then in the workspace.
  Visible find_ranges(const Slot& slot, const QueryPiece& queries, const Span& keys, Workspace& workspace) const;
  void hide_by_ranges(const Slot& slot, const QueryPiece& queries, const Span& keys, Workspace& workspace) const;
  BoolView dense_of(const Slot& slot, const QueryPiece& queries, const Span& keys) const;

  const Call& call_;
  Site* site_;
  std::vector<Slot> slots_;
  std::vector<AttendOptions> options_;  // of each slot
};

}  // namespace rapt::inline v1::distributed
