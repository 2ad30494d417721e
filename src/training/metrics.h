#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rapt::inline v1::training {

// The fewest insertions, deletions and replacements that turn one into the other.
std::int64_t edit_distance(std::span<const int> a, std::span<const int> b);

// Adds up how well hypotheses match. All rates are fractions; without anything added they are 0.
class SequenceScores {
 public:
  // Compares with the nearest reference, the first of several. Throws without references.
  void add(std::span<const int> hypothesis, std::span<const std::vector<int>> references);
  void add(std::span<const int> hypothesis, std::span<const int> reference);

  // For predictions under teacher forcing.
  void add_tokens(std::int64_t correct, std::int64_t total);

  void merge(const SequenceScores& other);

  std::int64_t sequences() const { return sequences_; }
  std::int64_t exact() const { return exact_; }
  std::int64_t edits() const { return edits_; }
  std::int64_t reference_symbols() const { return reference_symbols_; }

  double exact_match() const;
  double sequence_error() const;     // 1 − exact match; the word error of spelling to sound
  double symbol_error_rate() const;  // edits / symbols of the references; may exceed 1
  double token_accuracy() const;

 private:
  void count(std::int64_t distance, std::int64_t reference_length);

  std::int64_t sequences_ = 0;
  std::int64_t exact_ = 0;
  std::int64_t edits_ = 0;
  std::int64_t reference_symbols_ = 0;
  std::int64_t correct_tokens_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace rapt::inline v1::training
