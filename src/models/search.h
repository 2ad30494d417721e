#pragma once

#include <vector>

#include "models/decoder.h"

namespace rapt::inline v1::models {

struct SearchOptions {
  int beam = 1;               // 1: greedy
  int nbest = 1;              // at most beam
  double length_penalty = 0;  // α: scores are divided by ((5 + length) / 6)^α
};

struct Hypothesis {
  std::vector<int> tokens;  // without kEnd
  double log_probability = 0;
  double score = 0;      // with the length penalty
  bool finished = true;  // false: cut off at the longest length
};

// The best target sequences of each source, best first. `longest` holds the most tokens for each source.
template <class T>
std::vector<std::vector<Hypothesis>> search(Decoder<T>& decoder, std::span<const std::int64_t> longest,
                                            const SearchOptions& options);

}  // namespace rapt::inline v1::models
