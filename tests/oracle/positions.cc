#include "oracle/positions.h"

#include <algorithm>
#include <cmath>

namespace oracle {
namespace {

// The size that arrays repeat to: that of those that are not 1.
Int joined(Int a, Int b) { return a == 1 ? b : a; }

Int key_length(const Problem& p, Int b) {
  const std::vector<Int>& lengths = p.mask.key_lengths;
  if (lengths.empty()) return p.keys();
  return lengths[lengths.size() == 1 ? 0 : std::size_t(b)];
}

}  // namespace

Int spread(Int index, Int size, Int full) { return index * size / full; }

Int Problem::batch() const {
  Int batch = joined(q.shape[0], k.shape[0]);
  for (const Array& x : v) batch = joined(batch, x.shape[0]);
  return batch;
}

Int Problem::heads() const {
  // Fewer key heads than query heads are shared in groups; one query head serves all.
  Int heads = joined(q.shape[1], k.shape[1]);
  for (const Array& x : v) heads = joined(heads, x.shape[1]);
  return heads;
}

Int first_query(const Problem& p, Int b) {
  if (!p.first_query.empty()) return p.first_query[p.first_query.size() == 1 ? 0 : std::size_t(b)];
  // Packed sequences are shifted each by itself, and scores do not see that.
  if (p.mask.causal == Causal::bottom_right && p.mask.query_starts.empty())
    return p.first_key + key_length(p, b) - p.queries();
  return 0;
}

bool visible(const Problem& p, Int b, Int h, Int i, Int j) {
  const Mask& m = p.mask;
  if (j >= key_length(p, b)) return false;
  if (!m.dense.empty()) {
    const Sizes& s = m.dense.shape;
    if (m.dense.at(spread(b, s[0], p.batch()), spread(h, s[1], p.heads()), s[2] == 1 ? 0 : i, j) == 0) return false;
  }
  // Positions over the whole array, or within the packed sequence.
  Int query = i + first_query(p, b), key = j + p.first_key;
  if (!m.query_starts.empty()) {
    bool together = false;
    for (std::size_t s = 0; s + 1 < m.query_starts.size(); ++s) {
      const bool has_query = m.query_starts[s] <= i && i < m.query_starts[s + 1];
      const bool has_key = m.key_starts[s] <= j && j < m.key_starts[s + 1];
      if (!has_query || !has_key) continue;
      together = true;
      const Int queries = m.query_starts[s + 1] - m.query_starts[s], keys = m.key_starts[s + 1] - m.key_starts[s];
      query = i - m.query_starts[s] + (m.causal == Causal::bottom_right ? keys - queries : 0);
      key = j - m.key_starts[s];
    }
    if (!together) return false;
  }
  if (m.causal != Causal::none && key > query) return false;
  if (m.window && m.window->left >= 0 && key < query - m.window->left) return false;
  if (m.window && m.window->right >= 0 && key > query + m.window->right) return false;
  return true;
}

template <class T>
void rotate(const Rotary& rotary, Int first_position, Matrix<T>& x, int direction) {
  const Int half = rotary.dims / 2;
  for (Int r = 0; r < x.rows; ++r)
    for (Int n = 0; n < half; ++n) {
      const double angle = double(first_position + r) * std::pow(rotary.base, -2.0 * double(n) / double(rotary.dims));
      const T c = T(std::cos(angle)), s = T(double(direction) * std::sin(angle));
      T& a = x.at(r, rotary.interleaved ? 2 * n : n);
      T& b = x.at(r, rotary.interleaved ? 2 * n + 1 : n + half);
      const T first = a * c - b * s, second = a * s + b * c;
      a = first;
      b = second;
    }
}

template void rotate<float>(const Rotary&, Int, Matrix<float>&, int);
template void rotate<double>(const Rotary&, Int, Matrix<double>&, int);

}  // namespace oracle
