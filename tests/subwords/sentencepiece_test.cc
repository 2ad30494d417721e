#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "rapt/error.h"
#include "subwords/subwords.h"
#include "tasks/sequence_run.h"
#include "tasks/subwords.h"
#include "tasks/units.h"

namespace rapt::tasks::test {
namespace {

using Words = std::vector<std::string>;

class SubwordModels : public testing::TestWithParam<SubwordKind> {
 protected:
  static void SetUpTestSuite() { subwords::use_linked_library(); }

  SymbolOptions options(std::int64_t vocabulary, std::int64_t min_count = 1) const {
    SymbolOptions result;
    result.subwords = GetParam();
    result.vocabulary = vocabulary;
    result.min_count = min_count;
    return result;
  }
};

// Words of shared stems and endings, in another order on every line; ÿ is on one line only.
Words lines() {
  const Words stems{"walk", "talk", "jump", "für", "日本"};
  const Words ends{"", "ing", "ed", "s", "er"};
  Words result;
  for (std::size_t n = 0; n < 200; ++n)
    result.push_back(stems[n % 5] + ends[n / 5 % 5] + " " + stems[(n / 3) % 5] + ends[(n / 7) % 5]);
  result.push_back("ÿwalking");
  return result;
}

TEST_P(SubwordModels, CutWordsAndGiveThemBack) {
  const Words texts = lines();
  const LearnedSubwords learned = learn_subwords(texts, options(60), "source");
  std::size_t parts = 0;
  std::size_t characters = 0;
  for (const std::string& text : texts) {
    const Words tokens = learned.model->split(text);
    EXPECT_EQ(join(tokens, Units::subwords), text);
    EXPECT_TRUE(tokens.front().starts_with(kWordBegin)) << tokens.front();
    parts += tokens.size();
    characters += split(text, Units::characters).size();
  }
  EXPECT_LT(parts, characters / 2);
  EXPECT_FALSE(learned.kept.empty());
  // Words that were never seen, of known characters and of one that is not.
  EXPECT_EQ(join(learned.model->split("jumper walks日"), Units::subwords), "jumper walks日");
  const Words foreign = learned.model->split("walk☃ing");
  EXPECT_NE(std::find(foreign.begin(), foreign.end(), "☃"), foreign.end());
  EXPECT_EQ(join(foreign, Units::subwords), "walk☃ing");
}

TEST_P(SubwordModels, TheSameLinesGiveTheSameModel) {
  const Words texts = lines();
  const LearnedSubwords one = learn_subwords(texts, options(60), "source");
  const LearnedSubwords two = learn_subwords(texts, options(60), "source");
  EXPECT_EQ(one.model->bytes(), two.model->bytes());
  EXPECT_EQ(one.kept, two.kept);
  // What a run keeps is enough: bytes and parts.
  const std::unique_ptr<Subwords> opened = subword_library().open(one.model->bytes());
  opened->keep(one.kept);
  for (const std::string& text : texts) EXPECT_EQ(opened->split(text), one.model->split(text));
}

TEST_P(SubwordModels, RarePartsAreCutFurtherAndRareCharactersLeftOut) {
  const Words texts = lines();
  constexpr std::int64_t kLeast = 30;
  const LearnedSubwords learned = learn_subwords(texts, options(80, kLeast), "source");
  std::map<std::string, std::int64_t> counts;
  for (const std::string& text : texts)
    for (const std::string& part : learned.model->split(text)) ++counts[part];
  std::int64_t rare = 0;
  for (const auto& [part, count] : counts) {
    const bool one = split(part, Units::characters).size() == 1;
    EXPECT_TRUE(one || count >= kLeast) << part << " " << count;
    EXPECT_TRUE(one || std::binary_search(learned.kept.begin(), learned.kept.end(), part)) << part;
    rare += count < kLeast;
  }
  EXPECT_GT(rare, 0);  // ÿ
  EXPECT_LT(learned.kept.size(), learn_subwords(texts, options(80), "source").kept.size());
}

TEST_P(SubwordModels, AnswersAreComparedAsTexts) {
  SequenceRunConfig config;
  config.data.source = Source::pairs;
  config.data.target_units = Units::subwords;
  EXPECT_FALSE(canonical({}));
  config.data.target_subwords = learn_subwords(lines(), options(60), "target");
  const Words whole = config.data.split_target("walking");
  ASSERT_LT(whole.size(), 8U);
  const Words single{"▁", "w", "a", "l", "k", "i", "n", "g"};
  config.target_symbols = whole;
  for (const std::string& one : single)
    if (std::find(whole.begin(), whole.end(), one) == whole.end()) config.target_symbols.push_back(one);
  const Vocabulary target(config.target_symbols);
  EXPECT_EQ(canonical(config)(target.encode(single)), target.encode(whole));
  EXPECT_EQ(canonical(config)(target.encode(whole)), target.encode(whole));
  EXPECT_TRUE(canonical(config)({}).empty());
  // Cut as texts are, it would hold the unknown symbol, which would equal whatever a reference does not know.
  config.target_symbols = single;
  const Vocabulary letters(single);
  EXPECT_EQ(canonical(config)(letters.encode(single)), letters.encode(single));
}

TEST_P(SubwordModels, RefuseWhatCannotBe) {
  const auto error = [&](const Words& texts, const SymbolOptions& asked) -> std::string {
    try {
      learn_subwords(texts, asked, "source");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  // d, e, g, i, j, k, l, m, n, p, r, s, t, u, w, a, f, ü, 日, 本, ÿ; and the space.
  EXPECT_EQ(error(lines(), options(21)).find("setting vocabulary: expected at least 22, "), 0U)
      << error(lines(), options(21));
  EXPECT_EQ(error(lines(), options(22)), "");
  EXPECT_EQ(error(lines(), options(60, 100000)).find("setting min_count: "), 0U);
  EXPECT_EQ(error({}, options(60)), "subwords: expected text to learn from, got only empty sources");
  EXPECT_THROW(subword_library().open("no model"), Error);
  // More than the lines have is no mistake.
  EXPECT_EQ(error(lines(), options(0)), "");
  EXPECT_EQ(error({"a"}, options(0)), "");
}

INSTANTIATE_TEST_SUITE_P(Both, SubwordModels, testing::Values(SubwordKind::bpe, SubwordKind::unigram),
                         [](const auto& kind) { return kind.param == SubwordKind::bpe ? "Bpe" : "Unigram"; });

}  // namespace
}  // namespace rapt::tasks::test
