#include "attend/visibility.h"

#include <algorithm>

namespace rapt::inline v1 {
namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 60;  // beyond every position, and still addable to one

}  // namespace

bool Visibility::is_whole() const {
  const Mask& mask = problem_.mask;
  return !problem_.offsets_seen && mask.causal == Causal::none && !mask.window && mask.key_lengths.empty() &&
         mask.query_starts.empty();
}

void Visibility::ranges(std::int64_t b, std::int64_t first, int count, std::int64_t* begin, std::int64_t* end) const {
  std::size_t sequence = 0;
  const std::int64_t shift = problem_.query_shift(b);
  const Mask& mask = problem_.mask;
  const std::int64_t left = mask.window ? mask.window->left : -1, right = mask.window ? mask.window->right : -1;
  for (int n = 0; n < count; ++n) {
    const std::int64_t i = first + n;
    begin[n] = end[n] = 0;
    if (i >= problem_.queries) continue;
    std::int64_t query_start = 0, queries = problem_.queries, key_start = 0, keys = problem_.keys;
    if (!mask.query_starts.empty()) {
      if (n == 0 || i >= mask.query_starts[sequence + 1])
        sequence = static_cast<std::size_t>(std::upper_bound(mask.query_starts.begin(), mask.query_starts.end(), i) -
                                            mask.query_starts.begin() - 1);
      query_start = mask.query_starts[sequence];
      queries = mask.query_starts[sequence + 1] - query_start;
      key_start = mask.key_starts[sequence];
      keys = mask.key_starts[sequence + 1] - key_start;
    }
    // The query's position, counted from the sequence's first key. bottom_right applies to packed sequences alone.
    const std::int64_t row = problem_.one_position ? 0 : i - query_start;
    const std::int64_t diagonal = row + (mask.causal == Causal::bottom_right ? keys - queries : shift);
    std::int64_t low = 0, high = keys;
    if (mask.causal != Causal::none) high = std::min(high, diagonal + 1);
    if (left >= 0 && left < diagonal) low = diagonal - left;
    if (right >= 0) high = std::min(high, diagonal + std::min(right, kFar) + 1);
    if (problem_.offsets_seen) {
      low = std::max(low, diagonal + problem_.first_offset);
      high = std::min(high, diagonal + problem_.last_offset + 1);
    }
    low += key_start;
    high += key_start;
    if (!mask.key_lengths.empty())
      high = std::min(high, mask.key_lengths[mask.key_lengths.size() == 1 ? 0 : static_cast<std::size_t>(b)]);
    if (low < high) {
      begin[n] = low;
      end[n] = high;
    }
  }
}

}  // namespace rapt::inline v1
