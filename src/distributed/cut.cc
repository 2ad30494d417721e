#include "distributed/cut.h"

#include <algorithm>
#include <string>

#include "rapt/error.h"

namespace rapt::inline v1 {
namespace distributed {
namespace {

// Long enough that a cell of queries × keys costs far more than its call, short enough for many cells.
constexpr std::int64_t kShortest = 16, kLongest = 512, kPieces = 32;

}  // namespace

Cut::Cut(std::int64_t length) : length_(length) {
  const std::int64_t wanted = (length / kPieces + kShortest - 1) / kShortest * kShortest;
  piece_ = std::clamp(wanted, kShortest, kLongest);
  const std::int64_t pieces = (length + piece_ - 1) / piece_;
  units_ = std::max<std::int64_t>(1, (pieces + 1) / 2);
}

Span Cut::piece(std::int64_t n) const { return {std::min(n * piece_, length_), std::min((n + 1) * piece_, length_)}; }

Share Cut::share(int rank, int size) const {
  const Span own = units_of(rank, size);
  if (own.count() == 0) return {};
  return {early(own.begin).begin, early(own.end - 1).end, late(own.end - 1).begin, late(own.begin).end};
}

}  // namespace distributed

Share share_of(std::int64_t length, int rank, int size) {
  if (length < 0) throw Error("share_of: length: expected 0 or more, got " + std::to_string(length));
  if (size < 1 || rank < 0 || rank >= size)
    throw Error("share_of: rank: expected 0 to " + std::to_string(size - 1) + ", got " + std::to_string(rank));
  return distributed::Cut(length).share(rank, size);
}

}  // namespace rapt::inline v1
