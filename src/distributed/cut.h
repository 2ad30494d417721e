#pragma once

#include <cstdint>

#include "rapt/distributed.h"

namespace rapt::inline v1::distributed {

struct Span {
  std::int64_t begin = 0, end = 0;

  std::int64_t count() const { return end - begin; }
};

// A piece of keys: 0, the early one of its unit, or 1, the late one.
struct KeyPlace {
  std::int64_t unit = 0;
  int piece = 0;
};

// How a sequence is cut into pieces: by its length alone, so that every sum has one order for any number of processes. Unit u
// is piece u from the beginning and piece u from the end; a process has neighbouring units.
class Cut {
 public:
  explicit Cut(std::int64_t length);

  std::int64_t length() const { return length_; }
  std::int64_t piece_rows() const { return piece_; }
  std::int64_t units() const { return units_; }

  Span early(std::int64_t unit) const { return piece(unit); }
  Span late(std::int64_t unit) const { return piece(2 * units_ - 1 - unit); }
  Span rows(const KeyPlace& place) const { return place.piece == 0 ? early(place.unit) : late(place.unit); }

  // The units of a process, and the process of a unit.
  Span units_of(int rank, int size) const { return {units_ * rank / size, units_ * (rank + 1) / size}; }
  int owner(std::int64_t unit, int size) const { return static_cast<int>(((unit + 1) * size - 1) / units_); }
  Share share(int rank, int size) const;

 private:
  Span piece(std::int64_t n) const;

  std::int64_t length_, piece_, units_;
};

}  // namespace rapt::inline v1::distributed
