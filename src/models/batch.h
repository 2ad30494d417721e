#pragma once

#include <cstdint>
#include <vector>

namespace rapt::inline v1::models {

// Sequences side by side, one time step after the other. Lengths of targets count the kEnd.
struct Batch {
  int size = 0;
  int source_steps = 0;
  int target_steps = 0;
  std::vector<int> source;  // [source_steps, size], kPad after the end
  std::vector<std::int64_t> source_lengths;
  std::vector<int> target_in;   // [target_steps, size], kBegin, then the target, then kPad
  std::vector<int> target_out;  // [target_steps, size], the target, kEnd, then kPad
  std::vector<std::int64_t> target_lengths;
  std::vector<std::int64_t> index;  // of each example

  // The places of target_out that are not kPad.
  std::int64_t target_tokens() const;
};

}  // namespace rapt::inline v1::models
