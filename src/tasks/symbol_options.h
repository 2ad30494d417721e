#pragma once

#include <cstdint>

namespace rapt::inline v1::tasks {

enum class SubwordKind : std::uint8_t { bpe, unigram };

// How lines become symbols.
struct SymbolOptions {
  std::int64_t min_count = 1;
  std::int64_t vocabulary = 0;  // most symbols of a side; 0: all, or kUsualSubwords
  SubwordKind subwords = SubwordKind::bpe;
  // Of training: how the unknown symbol gets an embedding. See training::Batches::read_as_unknown.
  double unknown_dropout = 0.25;
  bool skip_long = false;
};

}  // namespace rapt::inline v1::tasks
