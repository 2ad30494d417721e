#pragma once

#include "backends/cuda/general/scores.cuh"

// The masks of one batch as a kernel's rows ask for them: a band along the diagonal, or the sequences of a packed batch.
namespace rapt::inline v1::cuda::hopper {

// Rows of the other side that a row may meet; empty where begin ≥ end.
using RowRange = KeyRange;

struct Band {
  int low = -kFar, high = kFar;  // query i sees the keys from i + low to before i + high,
  int keys = 0;                  // and before this one
};

RAPT_DEVICE Band band_of(const Call& call, int b) {
  const Masks& m = call.masks;
  const int shift = query_shift(call, b);
  Band band;
  band.keys = key_length(call, b);
  if (m.causal) band.high = shift + 1;
  if (m.right >= 0) band.high = ::min(band.high, shift + m.right + 1);
  if (m.left >= 0) band.low = shift - m.left;
  return band;
}

// The last sequence of a packed batch whose keys start at or before key j.
RAPT_DEVICE int key_sequence_of(const Masks& m, int j) {
  int low = 0, high = m.sequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (m.key_starts[middle] <= j ? low : high) = middle;
  }
  return low;
}

class RowMask {
 public:
  RAPT_DEVICE RowMask(const Call& call, int batch) : RowMask(call, batch, band_of(call, batch)) {}
  RAPT_DEVICE RowMask(const Call& call, int batch, const Band& band)
      : call_(call), batch_(batch), packed_(call.masks.sequences > 0), band_(band) {}

  RAPT_DEVICE RowRange keys_of(int i) const {
    if (packed_) return visible_keys(call_, batch_, i);
    return {::max(0, i + band_.low), ::min(band_.keys, i + band_.high)};
  }

  RAPT_DEVICE RowRange queries_of(int j) const {
    if (packed_) return packed_queries_of(j);
    if (j >= band_.keys) return {};
    return {::max(0, j - band_.high + 1), ::min(call_.queries, j - band_.low + 1)};
  }

 private:
  RAPT_DEVICE RowRange packed_queries_of(int j) const {
    const Masks& m = call_.masks;
    if (j >= ::min(key_length(call_, batch_), call_.keys)) return {};
    const int n = key_sequence_of(m, j);
    const int query_start = static_cast<int>(m.query_starts[n]), key_start = static_cast<int>(m.key_starts[n]);
    const int queries = static_cast<int>(m.query_starts[n + 1]) - query_start;
    const int keys = static_cast<int>(m.key_starts[n + 1]) - key_start;
    // Key j stands beside this query of its sequence.
    const int place = j - key_start - (m.packed_bottom_right ? keys - queries : query_shift(call_, batch_));
    int low = 0, high = j < key_start + keys ? queries : 0;
    if (m.causal) low = ::max(low, place);
    if (m.right >= 0) low = ::max(low, place - m.right);
    if (m.left >= 0) high = ::min(high, place + m.left + 1);
    return {query_start + low, query_start + high};
  }

  const Call& call_;
  const int batch_;
  const bool packed_;
  Band band_;
};

// The queries that may see some of a block's keys, and those that see all of them. Ranges never move back from one key
// to the next, so that the first and the last key tell.
struct TileQueries {
  RowRange some, all;
};
RAPT_DEVICE TileQueries tile_queries(const Call& call, int b, int first, int count) {
  const int last = ::min(first + count, call.keys) - 1;
  const Masks& m = call.masks;
  if (m.sequences > 0) {
    const int from = key_sequence_of(m, first), to = key_sequence_of(m, last);
    return {{static_cast<int>(m.query_starts[from]), static_cast<int>(m.query_starts[to + 1])}, {0, 0}};
  }
  const RowMask mask(call, b);
  const RowRange low = mask.queries_of(first), high = mask.queries_of(::min(last, key_length(call, b) - 1));
  if (first >= key_length(call, b)) return {};
  TileQueries queries;
  queries.some = {low.begin, high.end};
  // Keys past the length are hidden from all.
  if (first + count <= key_length(call, b)) queries.all = {high.begin, low.end};
  return queries;
}

}  // namespace rapt::inline v1::cuda::hopper
