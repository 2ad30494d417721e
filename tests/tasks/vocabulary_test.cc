#include "tasks/vocabulary.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "rapt/error.h"

namespace rapt::tasks::test {
namespace {

using Tokens = std::vector<std::string>;

const std::vector<Example> kExamples = {{{"b", "a", "b"}, {"X"}}, {{"c", "a", "é"}, {"Y", "Y"}}};

TEST(Vocabularies, FrequentSymbolsFirstThenByBytes) {
  EXPECT_EQ(Vocabulary::from_examples(kExamples, Side::source).symbols(), (Tokens{"a", "b", "c", "é"}));
  EXPECT_EQ(Vocabulary::from_examples(kExamples, Side::target).symbols(), (Tokens{"Y", "X"}));
  EXPECT_EQ(Vocabulary::from_examples(kExamples, Side::both).symbols(), (Tokens{"Y", "a", "b", "X", "c", "é"}));
}

TEST(Vocabularies, RareSymbolsAreLeftOut) {
  EXPECT_EQ(Vocabulary::from_examples(kExamples, Side::source, {.min_count = 2}).symbols(), (Tokens{"a", "b"}));
  EXPECT_EQ(Vocabulary::from_examples(kExamples, Side::source, {.most = 3}).symbols(), (Tokens{"a", "b", "c"}));
  EXPECT_EQ(Vocabulary::from_examples(kExamples, Side::source, {.min_count = 2, .most = 1}).symbols(), (Tokens{"a"}));
  const Tokens always{"é", "z"};
  const Vocabulary kept = Vocabulary::from_examples(kExamples, Side::source, {.min_count = 2, .always = always});
  EXPECT_EQ(kept.symbols(), (Tokens{"a", "b", "é", "z"}));
  EXPECT_EQ(kept.id("c"), kUnknown);
  EXPECT_THROW(Vocabulary::from_examples(kExamples, Side::source, {.min_count = 3}), Error);
  // Nothing to leave out.
  EXPECT_TRUE(Vocabulary::from_examples({}, Side::source, {.min_count = 3}).symbols().empty());
}

TEST(Vocabularies, TheOrderOfTheExamplesDoesNotMatter) {
  std::vector<Example> turned(kExamples.rbegin(), kExamples.rend());
  for (Example& example : turned) std::reverse(example.source.begin(), example.source.end());
  EXPECT_EQ(Vocabulary::from_examples(turned, Side::both).symbols(),
            Vocabulary::from_examples(kExamples, Side::both).symbols());
}

TEST(Vocabularies, SymbolsAndIds) {
  const Vocabulary vocabulary(Tokens{"b", "a", "<pad>"});
  EXPECT_EQ(vocabulary.size(), 7);
  EXPECT_EQ(vocabulary.id("b"), 4);
  EXPECT_EQ(vocabulary.id("z"), kUnknown);
  EXPECT_EQ(vocabulary.id(""), kUnknown);
  // Text never maps to padding, even where it looks so.
  EXPECT_EQ(vocabulary.id("<pad>"), 6);
  EXPECT_EQ(vocabulary.id("<end>"), kUnknown);
  EXPECT_EQ(vocabulary.symbol(5), "a");
  EXPECT_EQ(vocabulary.symbol(kUnknown), "<unknown>");
  EXPECT_THROW(vocabulary.symbol(7), Error);
  EXPECT_THROW(vocabulary.symbol(-1), Error);
  EXPECT_EQ(vocabulary.encode(Tokens{"a", "q", "b"}), (std::vector<int>{5, 3, 4}));
  EXPECT_EQ(vocabulary.decode(std::vector<int>{1, 5, 3, 0, 4, 2, 5}), (Tokens{"a", "<unknown>", "b"}));
  EXPECT_THROW(vocabulary.decode(std::vector<int>{99}), Error);
}

TEST(Vocabularies, RoundTripThroughTheSymbols) {
  const Vocabulary first = Vocabulary::from_examples(kExamples, Side::both);
  const Vocabulary second(first.symbols());
  for (int id = 0; id < first.size(); ++id) EXPECT_EQ(second.symbol(id), first.symbol(id));
  EXPECT_EQ(second.encode(kExamples[1].source), first.encode(kExamples[1].source));
}

TEST(Vocabularies, RefuseWhatIsAmbiguous) {
  EXPECT_THROW(Vocabulary(Tokens{"a", "b", "a"}), Error);
  EXPECT_THROW(Vocabulary(Tokens{"a", ""}), Error);
  EXPECT_EQ(Vocabulary().size(), 4);
  EXPECT_EQ(Vocabulary().id("a"), kUnknown);
}

}  // namespace
}  // namespace rapt::tasks::test
