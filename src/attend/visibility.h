#pragma once

#include <cstdint>

#include "attend/problem.h"

namespace rapt::inline v1 {

// All masks but the dense one leave each query one range of keys.
class Visibility {
 public:
  // Reads the problem on every request.
  explicit Visibility(const Problem& problem) : problem_(problem) {}

  // Every query sees every key.
  bool is_whole() const;

  // begin[n], end[n] for the queries first … first+count−1 of batch b; rows past the last query see nothing.
  void ranges(std::int64_t b, std::int64_t first, int count, std::int64_t* begin, std::int64_t* end) const;

 private:
  const Problem& problem_;
};

}  // namespace rapt::inline v1
