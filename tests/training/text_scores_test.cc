#include "training/text_scores.h"

#include <gtest/gtest.h>

#include "rapt/error.h"

namespace rapt::training::test {
namespace {

using Texts = std::vector<std::string>;

struct Corpus {
  std::vector<std::pair<std::string, Texts>> lines;  // answer, references
  double bleu, chrf;                                 // what sacreBLEU 2.6.0 says, over 100
};

TEST(TextScores, AreThoseOfSacreBleu) {
  const std::vector<Corpus> corpora{
      {{{"the cat sat on the mat.", {"the cat is on the mat."}},
        {"It costs $3,50 - 4-5 times \"more\".", {"It costs $3.50, 4-5 times more!"}}},
       0.3535533906,
       0.6218799744},
      {{{"Es war einmal ein König", {"Es war einmal ein alter König", "Einmal war ein König"}},
        {"größer als je zuvor &amp; mehr", {"grösser als zuvor & mehr", "größer als je"}}},
       0.5645596772,
       0.7140009077},
      {{{"ab", {"abc"}}, {"", {"x"}}, {"abcdef", {"abcdef", "abc"}}}, 0, 0.9262851600},
      {{{"a b c d e f", {"a b x d e f g h"}}, {"nothing shared here now", {"quite another sentence at all"}}},
       0.1852045552,
       0.1762838502},
      {{{"日本語 の 文", {"日本語 の 長い 文"}}, {"1,000.5-3 (see [1]/2)", {"1,000.5 - 3 (see [1] / 2)"}}},
       0.8873448901,
       0.8873810319},
      {{{"short", {"short"}}}, 0, 1}};
  for (const Corpus& corpus : corpora) {
    TextScores scores;
    for (const auto& [answer, references] : corpus.lines) scores.add(answer, references);
    EXPECT_NEAR(scores.bleu(), corpus.bleu, 1e-9) << corpus.lines[0].first;
    EXPECT_NEAR(scores.chrf(), corpus.chrf, 1e-9) << corpus.lines[0].first;
  }
}

TEST(TextScores, TokensAreThoseOfSacreBleu) {
  const auto tokens = [](const std::string& text) {
    std::string joined;
    for (const std::string& token : tokenize_13a(text)) joined += (joined.empty() ? "" : " ") + token;
    return joined;
  };
  EXPECT_EQ(tokens("It costs $3,50 - 4-5 times \"more\"."), "It costs $ 3,50 - 4 - 5 times \" more \" .");
  EXPECT_EQ(tokens("a.b,c 1.2,3 x-1 1-x"), "a . b , c 1.2,3 x-1 1 - x");
  EXPECT_EQ(tokens("&lt;b&gt; isn't it? {a|b}~ [x] `y` ^z_ w@v.com"),
            "< b > isn't it ? { a | b } ~ [ x ] ` y ` ^ z _ w @ v . com");
  EXPECT_EQ(tokens("1,. 2.,x ..,"), "1 , . 2 . , x . . ,");
  EXPECT_EQ(tokens(""), "");
}

TEST(TextScores, NothingGivesNothing) {
  EXPECT_EQ(TextScores().bleu(), 0);
  EXPECT_EQ(TextScores().chrf(), 0);
  EXPECT_THROW(TextScores().add("a", {}), Error);
}

}  // namespace
}  // namespace rapt::training::test
