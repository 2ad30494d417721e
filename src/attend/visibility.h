#pragma once

#include <cstdint>
#include <vector>

#include "attend/problem.h"

namespace rapt::inline v1 {

// The masks other than the dense one leave each query one range of keys.
class Visibility {
 public:
  explicit Visibility(const Problem& problem);

  // begin[n], end[n] for the queries first … first+count−1 of batch b; rows past the last query see nothing.
  void ranges(std::int64_t b, std::int64_t first, int count, std::int64_t* begin, std::int64_t* end) const;

 private:
  std::int64_t queries_, keys_;
  Causal causal_;
  std::int64_t left_ = -1, right_ = -1;
  std::vector<std::int64_t> key_lengths_;
  std::vector<std::int64_t> query_starts_, key_starts_;
  std::vector<std::int64_t> shifts_;  // of query 0 from key 0: one, or one for each batch
};

}  // namespace rapt::inline v1
