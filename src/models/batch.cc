#include "models/batch.h"

#include <numeric>

namespace rapt::inline v1::models {

std::int64_t Batch::target_tokens() const {
  return std::accumulate(target_lengths.begin(), target_lengths.end(), std::int64_t{0});
}

}  // namespace rapt::inline v1::models
