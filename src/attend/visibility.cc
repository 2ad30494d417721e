#include "attend/visibility.h"

#include <algorithm>

namespace rapt::inline v1 {
namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 60;  // beyond every position, and still addable to one

}  // namespace

Visibility::Visibility(const Problem& problem)
    : queries_(problem.queries),
      keys_(problem.keys),
      causal_(problem.mask.causal),
      key_lengths_(problem.mask.key_lengths),
      query_starts_(problem.mask.query_starts),
      key_starts_(problem.mask.key_starts),
      shifts_(problem.first_query) {
  for (std::int64_t& shift : shifts_) shift -= problem.first_key;
  if (problem.mask.window) {
    left_ = problem.mask.window->left;
    right_ = problem.mask.window->right;
  }
}

void Visibility::ranges(std::int64_t b, std::int64_t first, int count, std::int64_t* begin, std::int64_t* end) const {
  std::size_t sequence = 0;
  const std::int64_t shift = shifts_[shifts_.size() == 1 ? 0 : static_cast<std::size_t>(b)];
  for (int n = 0; n < count; ++n) {
    const std::int64_t i = first + n;
    begin[n] = end[n] = 0;
    if (i >= queries_) continue;
    std::int64_t query_start = 0, queries = queries_, key_start = 0, keys = keys_;
    if (!query_starts_.empty()) {
      if (n == 0 || i >= query_starts_[sequence + 1])
        sequence = static_cast<std::size_t>(std::upper_bound(query_starts_.begin(), query_starts_.end(), i) -
                                            query_starts_.begin() - 1);
      query_start = query_starts_[sequence];
      queries = query_starts_[sequence + 1] - query_start;
      key_start = key_starts_[sequence];
      keys = key_starts_[sequence + 1] - key_start;
    }
    // Where the query stands, counted from the sequence's first key. bottom_right is of packed sequences alone.
    const std::int64_t diagonal = i - query_start + (causal_ == Causal::bottom_right ? keys - queries : shift);
    std::int64_t low = 0, high = keys;
    if (causal_ != Causal::none) high = std::min(high, diagonal + 1);
    if (left_ >= 0 && left_ < diagonal) low = diagonal - left_;
    if (right_ >= 0) high = std::min(high, diagonal + std::min(right_, kFar) + 1);
    low += key_start;
    high += key_start;
    if (!key_lengths_.empty())
      high = std::min(high, key_lengths_[key_lengths_.size() == 1 ? 0 : static_cast<std::size_t>(b)]);
    if (low < high) {
      begin[n] = low;
      end[n] = high;
    }
  }
}

}  // namespace rapt::inline v1
