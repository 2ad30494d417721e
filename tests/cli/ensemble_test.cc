#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/live_cli.h"

// Several runs that answer together.
namespace rapt::test {
namespace {

using Json = nlohmann::json;

class EnsembleRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* seed : {"1", "2"})
      ASSERT_EQ(run_cli(small_run(dir / seed, {"--epochs", "2", "--seed", seed})).status, 0);
  }

  Json decoded(const Words& more) {
    Words words{"decode", dir / "1", "--json", "--beam", "2"};
    words.insert(words.end(), more.begin(), more.end());
    const CliResult result = run_cli(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out);
  }

  void expect_refused(const CliResult& result, const Words& parts) {
    EXPECT_EQ(result.status, 2) << result.out;
    for (const std::string& part : parts) EXPECT_TRUE(has(result.err, part)) << result.err;
  }

  const TemporaryDirectory dir;
};

TEST_F(EnsembleRuns, OfOneRunTwiceIsThatRun) {
  const Json alone = decoded({"abc", "dda"});
  // The argument after the option's is a text, not another run.
  const Json twice = decoded({"--ensemble", dir / "1", "abc", "dda"});
  ASSERT_EQ(twice.size(), 2U);
  for (std::size_t n = 0; n < 2; ++n) {
    EXPECT_EQ(twice[n]["hypotheses"][0]["text"], alone[n]["hypotheses"][0]["text"]);
    EXPECT_NEAR(twice[n]["hypotheses"][0]["score"].get<double>(), alone[n]["hypotheses"][0]["score"].get<double>(),
                1e-4);
  }
  const Json both = decoded({"--ensemble", dir / "2", "abc", "dda"});
  EXPECT_NE(both[0]["hypotheses"][0]["score"], alone[0]["hypotheses"][0]["score"]);
}

TEST_F(EnsembleRuns, AreScoredTogether) {
  const auto loss_of = [&](const Words& words) {
    const CliResult result = run_cli(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out);
  };
  const double one = loss_of({"evaluate", dir / "1", "--json"})["loss"];
  const double other = loss_of({"evaluate", dir / "2", "--json"})["loss"];
  const Json both = loss_of({"evaluate", dir / "1", "--ensemble", dir / "2", "--json"});
  // The logarithm is concave: a mean of probabilities loses no more than the mean of the losses.
  EXPECT_LT(both["loss"].get<double>(), (one + other) / 2);
  EXPECT_EQ(both["ensemble"], Json::array({dir / "2"}));
}

TEST_F(EnsembleRuns, DrawTheMeanOfTheirMaps) {
  const CliResult drawn = run_cli(
      {"decode", dir / "1", "--ensemble", dir / "2", "abc", "--plot", dir / "map.svg", "--align", dir / "a.json"});
  ASSERT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_TRUE(has(drawn.err, "mean of 2 models: attention of the decoder to the source")) << drawn.err;
  EXPECT_TRUE(has(text_of(dir / "map.svg"), "mean of 2 models"));
  ASSERT_EQ(run_cli(small_run(dir / "none", {"--epochs", "1", "--attention", "none"})).status, 0);
  expect_refused(run_cli({"decode", dir / "1", "--ensemble", dir / "none", "abc", "--plot", dir / "x.svg"}),
                 {"--plot", "expected a model with attention", dir / "none"});
}

TEST_F(EnsembleRuns, RefuseWhatCannotAnswerTogether) {
  std::string lines;
  for (int n = 0; n < 40; ++n) lines += std::string(1, static_cast<char>('a' + n % 7)) + std::to_string(n) + "\tx\n";
  std::ofstream(dir / "pairs.tsv") << lines;
  const auto pairs = [&](const std::string& out, const Words& more) {
    Words words{"train", "--data", dir / "pairs.tsv", "--hidden", "8", "--epochs", "1", "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    ASSERT_EQ(run_cli(words).status, 0);
  };
  pairs(dir / "pairs", {});
  pairs(dir / "fewer", {"--vocabulary", "5"});
  pairs(dir / "words", {"--tokens", "words"});
  expect_refused(run_cli({"decode", dir / "1", "--ensemble", dir / "pairs", "a"}),
                 {dir / "pairs", "expected a run on the same task as " + (dir / "1") + ", got another"});
  expect_refused(run_cli({"evaluate", dir / "pairs", "--ensemble", dir / "fewer"}),
                 {dir / "fewer", "with the same 17 source symbols as " + (dir / "pairs") + ", got 5", "--vocabulary"});
  expect_refused(run_cli({"evaluate", dir / "pairs", "--ensemble", dir / "words"}),
                 {"with the same kinds of tokens as " + (dir / "pairs") + ", got others"});
  expect_refused(run_cli({"decode", dir / "1", "--ensemble", dir / "nowhere", "a"}), {dir / "nowhere"});
}

}  // namespace
}  // namespace rapt::test
