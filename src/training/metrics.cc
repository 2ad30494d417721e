#include "training/metrics.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "rapt/error.h"

namespace rapt::inline v1::training {
namespace {

double ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(whole, 1));
}

}  // namespace

std::int64_t edit_distance(std::span<const int> a, std::span<const int> b) {
  // The rows are as long as the shorter one.
  if (a.size() < b.size()) std::swap(a, b);
  std::vector<std::int64_t> above(b.size() + 1);
  std::vector<std::int64_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    row[0] = static_cast<std::int64_t>(i) + 1;
    for (std::size_t j = 0; j < b.size(); ++j)
      row[j + 1] = std::min({above[j + 1] + 1, row[j] + 1, above[j] + (a[i] == b[j] ? 0 : 1)});
    std::swap(above, row);
  }
  return above.back();
}

void SequenceScores::count(std::int64_t distance, std::int64_t reference_length) {
  ++sequences_;
  if (distance == 0) ++exact_;
  edits_ += distance;
  reference_symbols_ += reference_length;
}

void SequenceScores::add(std::span<const int> hypothesis, std::span<const std::vector<int>> references) {
  if (references.empty()) throw Error("sequence scores: expected at least one reference, got none");
  std::int64_t nearest = edit_distance(hypothesis, references[0]);
  std::size_t length = references[0].size();
  for (const std::vector<int>& reference : references.subspan(1)) {
    const std::int64_t distance = edit_distance(hypothesis, reference);
    if (distance >= nearest) continue;
    nearest = distance;
    length = reference.size();
  }
  count(nearest, static_cast<std::int64_t>(length));
}

void SequenceScores::add(std::span<const int> hypothesis, std::span<const int> reference) {
  count(edit_distance(hypothesis, reference), static_cast<std::int64_t>(reference.size()));
}

void SequenceScores::add_tokens(std::int64_t correct, std::int64_t total) {
  if (correct < 0 || correct > total)
    throw Error("token accuracy: expected 0 to " + std::to_string(total) + " correct, got " + std::to_string(correct));
  correct_tokens_ += correct;
  tokens_ += total;
}

void SequenceScores::merge(const SequenceScores& other) {
  sequences_ += other.sequences_;
  exact_ += other.exact_;
  edits_ += other.edits_;
  reference_symbols_ += other.reference_symbols_;
  correct_tokens_ += other.correct_tokens_;
  tokens_ += other.tokens_;
}

double SequenceScores::exact_match() const { return ratio(exact_, sequences_); }
double SequenceScores::sequence_error() const { return ratio(sequences_ - exact_, sequences_); }
double SequenceScores::symbol_error_rate() const { return ratio(edits_, reference_symbols_); }
double SequenceScores::token_accuracy() const { return ratio(correct_tokens_, tokens_); }

}  // namespace rapt::inline v1::training
