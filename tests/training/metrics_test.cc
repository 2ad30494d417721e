#include "training/metrics.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tensor/random.h"

namespace rapt::training::test {
namespace {

using Ids = std::vector<int>;

Ids letters(std::string_view text) { return {text.begin(), text.end()}; }

// By the definition, without a table.
std::int64_t slow_distance(std::span<const int> a, std::span<const int> b) {
  if (a.empty() || b.empty()) return static_cast<std::int64_t>(a.size() + b.size());
  const std::int64_t replaced = slow_distance(a.subspan(1), b.subspan(1)) + (a[0] == b[0] ? 0 : 1);
  return std::min({replaced, slow_distance(a.subspan(1), b) + 1, slow_distance(a, b.subspan(1)) + 1});
}

TEST(EditDistance, KnownValues) {
  EXPECT_EQ(edit_distance(letters("kitten"), letters("sitting")), 3);
  EXPECT_EQ(edit_distance(letters("intention"), letters("execution")), 5);
  EXPECT_EQ(edit_distance(letters("abc"), letters("abc")), 0);
  EXPECT_EQ(edit_distance(letters(""), letters("abc")), 3);
  EXPECT_EQ(edit_distance(letters("abc"), letters("")), 3);
  EXPECT_EQ(edit_distance({}, {}), 0);
  EXPECT_EQ(edit_distance(letters("ab"), letters("ba")), 2);
}

TEST(EditDistance, AgreesWithTheDefinition) {
  Random random(6);
  for (int round = 0; round < 500; ++round) {
    Ids a(random.below(7));
    Ids b(random.below(7));
    for (Ids* ids : {&a, &b})
      for (int& id : *ids) id = static_cast<int>(random.below(3));
    ASSERT_EQ(edit_distance(a, b), slow_distance(a, b));
  }
}

TEST(SequenceScoresOf, TheNearestReferenceCounts) {
  SequenceScores scores;
  scores.add(Ids{1, 2, 3}, std::vector<Ids>{{9, 9}, {1, 2, 3}});
  EXPECT_EQ(scores.exact(), 1);
  EXPECT_EQ(scores.reference_symbols(), 3);
  scores.add(Ids{1, 2}, std::vector<Ids>{{1, 2, 3, 4, 5}, {1, 3, 4}, {2, 2, 3}});
  EXPECT_EQ(scores.edits(), 2);
  EXPECT_EQ(scores.reference_symbols(), 6);
  scores.add(Ids{}, Ids{7, 7});
  EXPECT_EQ(scores.sequences(), 3);
  EXPECT_DOUBLE_EQ(scores.exact_match(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(scores.sequence_error(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(scores.symbol_error_rate(), 4.0 / 8);
  EXPECT_THROW(scores.add(Ids{1}, std::vector<Ids>{}), Error);
}

TEST(SequenceScoresOf, NothingAndEmptyReferences) {
  SequenceScores scores;
  EXPECT_EQ(scores.exact_match(), 0);
  EXPECT_EQ(scores.sequence_error(), 0);
  EXPECT_EQ(scores.symbol_error_rate(), 0);
  EXPECT_EQ(scores.token_accuracy(), 0);
  scores.add(Ids{}, Ids{});
  EXPECT_EQ(scores.exact_match(), 1);
  scores.add(Ids{5}, Ids{});
  EXPECT_EQ(scores.symbol_error_rate(), 1);
}

TEST(SequenceScoresOf, TokensAndMerging) {
  SequenceScores one;
  one.add(Ids{1}, Ids{1});
  one.add_tokens(3, 4);
  SequenceScores two;
  two.add(Ids{1}, Ids{2, 2});
  two.add_tokens(0, 4);
  one.merge(two);
  EXPECT_EQ(one.sequences(), 2);
  EXPECT_EQ(one.exact(), 1);
  EXPECT_EQ(one.edits(), 2);
  EXPECT_EQ(one.reference_symbols(), 3);
  EXPECT_DOUBLE_EQ(one.token_accuracy(), 3.0 / 8);
  EXPECT_THROW(one.add_tokens(5, 4), Error);
  EXPECT_THROW(one.add_tokens(-1, 4), Error);
}

}  // namespace
}  // namespace rapt::training::test
