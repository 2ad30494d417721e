#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/live_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;

void write_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// A task that a tiny model learns in a second: reversing short strings. `more` replaces options of the same name.
Words small_reverse(const std::string& out, const Words& more = {}) {
  const Words usual{"--train-size", "300", "--valid-size", "40", "--test-size", "40", "--min-length", "2",
                    "--max-length", "6",   "--hidden",     "16", "--embedding", "8",  "--epochs",     "3",
                    "--batch",      "16",  "--out",        out};
  Words all{"train", "reverse"};
  for (std::size_t n = 0; n < usual.size(); n += 2)
    if (std::find(more.begin(), more.end(), usual[n]) == more.end()) all.insert(all.end(), {usual[n], usual[n + 1]});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(TrainVerb, LeavesARunThatDecodesAndEvaluates) {
  const TemporaryDirectory dir;
  const CliResult trained = run_cli(small_reverse(dir / "run", {"--json", "--epochs", "12", "--rate", "0.01"}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Json result = Json::parse(trained.out);
  EXPECT_GT(result["exact_match"].get<double>(), 0.3);
  EXPECT_EQ(names_in(dir / "run"), (Words{"config.json", "metrics.jsonl", "model.safetensors", "state.safetensors"}));
  const std::string metrics = text_of(dir / "run/metrics.jsonl");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 12);

  const CliResult evaluated = run_cli({"evaluate", dir / "run", "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_EQ(Json::parse(evaluated.out)["exact_match"], result["exact_match"]);

  const CliResult decoded =
      run_cli({"decode", dir / "run", "abc", "dd", "--align", dir / "links", "--plot", dir / "map.svg"});
  ASSERT_EQ(decoded.status, 0) << decoded.err;
  EXPECT_EQ(std::count(decoded.out.begin(), decoded.out.end(), '\n'), 2);
  const std::string links = text_of(dir / "links");
  EXPECT_EQ(std::count(links.begin(), links.end(), '\n'), 2);
  EXPECT_NE(links.find("-0"), std::string::npos);
  EXPECT_NE(text_of(dir / "map.svg").find("<svg"), std::string::npos);

  const CliResult best = run_cli({"decode", dir / "run", "abc", "--beam", "4", "--nbest", "3", "--json"});
  ASSERT_EQ(best.status, 0) << best.err;
  const Json hypotheses = Json::parse(best.out)[0]["hypotheses"];
  ASSERT_EQ(hypotheses.size(), 3U);
  EXPECT_GE(hypotheses[0]["score"], hypotheses[1]["score"]);
}

TEST(TrainVerb, SameWeightsOnAnyNumberOfThreads) {
  const TemporaryDirectory dir;
  ASSERT_EQ(run_cli(small_reverse(dir / "one", {"--threads", "1"})).status, 0);
  ASSERT_EQ(run_cli(small_reverse(dir / "three", {"--threads", "3"})).status, 0);
  EXPECT_EQ(text_of(dir / "one/model.safetensors"), text_of(dir / "three/model.safetensors"));
}

TEST(TrainVerb, AResumedRunEndsInTheSameWeights) {
  const TemporaryDirectory dir;
  ASSERT_EQ(run_cli(small_reverse(dir / "whole")).status, 0);
  // The state after the second epoch, as a run that was killed in the third left it.
  ASSERT_EQ(run_cli(small_reverse(dir / "part")).status, 0);
  std::filesystem::remove(dir / "part/state.safetensors");
  EXPECT_EQ(run_cli({"train", "--resume", "--out", dir / "part"}).status, 0);
  EXPECT_EQ(text_of(dir / "part/model.safetensors"), text_of(dir / "whole/model.safetensors"));
  expect_refused(run_cli(small_reverse(dir / "whole")), {"holds a run already", "--resume"});
  expect_refused(run_cli({"train", "--resume", "--hidden", "8", "--out", dir / "whole"}),
                 {"--hidden", "keeps its settings"});
}

TEST(TrainVerb, ComparesValuesOfASetting) {
  const TemporaryDirectory dir;
  const CliResult result = run_cli(small_reverse(dir / "all", {"--compare", "attention=none,additive", "--json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const Json rows = Json::parse(result.out);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1]["attention"], "additive");
  EXPECT_EQ(names_in(dir / "all"), (Words{"additive", "none"}));
}

TEST(TrainVerb, LearnsFromAFile) {
  const TemporaryDirectory dir;
  std::string lines;
  for (const char* word : {"eins", "zwei", "drei", "vier", "fünf", "sechs", "日本", "ß"})
    for (int n = 0; n < 6; ++n) lines += std::string(word) + (n % 2 ? "x" : "") + "\t" + word + "\n";
  write_text(dir / "pairs.tsv", "\xEF\xBB\xBF" + lines + "\n\n");
  const CliResult result = run_cli({"train", "--data", dir / "pairs.tsv", "--hidden", "16", "--embedding", "8",
                                    "--epochs", "2", "--model", "seq2seq", "--out", dir / "run"});
  ASSERT_EQ(result.status, 0) << result.err;
  const CliResult decoded = run_cli({"decode", dir / "run", "fünf", "", "🙂"});
  ASSERT_EQ(decoded.status, 0) << decoded.err;
  EXPECT_EQ(std::count(decoded.out.begin(), decoded.out.end(), '\n'), 3);
  EXPECT_NE(decoded.err.find("line 3"), std::string::npos);
  const CliResult bad = run_cli({"decode", dir / "run", std::string("a\xff\xfe")});
  EXPECT_EQ(bad.status, 1);
  EXPECT_NE(bad.err.find("decode: line 1"), std::string::npos) << bad.err;
  // The run remembers its data.
  write_text(dir / "pairs.tsv", "a\tb\nc\td\n");
  expect_refused(run_cli({"train", "--resume", "--epochs", "5", "--out", dir / "run"}),
                 {"pairs.tsv", "expected the examples that the run was started with"});
}

TEST(TrainVerb, RefusesBadInput) {
  const TemporaryDirectory dir;
  expect_refused(run_cli({"train", "--out", dir / "x"}), {"TASK", "--data"});
  expect_refused(run_cli({"train", "sort", "--out", dir / "x"}), {"sort", "reverse, case"});
  expect_refused(run_cli({"train", "reverse"}), {"--out"});
  expect_refused(run_cli(small_reverse(dir / "x", {"--attention", "nope"})),
                 {"--attention: expected one of dot, scaled_dot", "learned_2d, argmax, none, got 'nope'"});
  expect_refused(run_cli({"train", "case", "--model", "transformer", "--cross-attention", "nope", "--out", dir / "x"}),
                 {"--cross-attention: expected one of dot, ", "got 'nope'"});
  expect_refused(run_cli(small_reverse(dir / "x", {"--attention", "quadratic"})), {"quadratic", "grid"});
  expect_refused(run_cli(small_reverse(dir / "x", {"--hidden", "0"})), {"--hidden", "1 to"});
  expect_refused(run_cli(small_reverse(dir / "x", {"--hidden", "7", "--bidirectional"})), {"even"});
  expect_refused(run_cli(small_reverse(dir / "x", {"--rate", "fast"})), {"--rate", "number"});
  expect_refused(run_cli(small_reverse(dir / "x", {"--cell", "lstn"})), {"--cell", "expected rnn, gru or lstm"});
  expect_refused(run_cli(small_reverse(dir / "x", {"--heads", "4"})), {"--heads", "seq2seq"});
  expect_refused(run_cli({"train", "reverse", "--max-length", "3", "--train-size", "100000", "--out", dir / "x"}),
                 {"reverse"});
  write_text(dir / "bad.tsv", "a\tb\nno tab here\n");
  expect_refused(run_cli({"train", "--data", dir / "bad.tsv", "--out", dir / "x"}), {"bad.tsv:2"});
  expect_refused(run_cli({"train", "--data", dir / "missing.tsv", "--out", dir / "x"}), {"missing.tsv"});
  EXPECT_FALSE(std::filesystem::exists(dir / "x"));
  expect_refused(run_cli({"decode", dir / "nowhere", "a"}), {"nowhere"});
  expect_refused(run_cli({"evaluate", dir.path().string()}), {"config.json"});
}

TEST(TrainVerb, RefusesDamagedRuns) {
  const TemporaryDirectory dir;
  ASSERT_EQ(run_cli(small_reverse(dir / "run", {"--epochs", "1"})).status, 0);
  const std::string weights = text_of(dir / "run/model.safetensors");
  write_text(dir / "run/model.safetensors", weights.substr(0, weights.size() / 2));
  expect_refused(run_cli({"decode", dir / "run", "ab"}), {"model.safetensors"});
  const std::string state = text_of(dir / "run/state.safetensors");
  write_text(dir / "run/model.safetensors", state);
  expect_refused(run_cli({"decode", dir / "run", "ab"}), {"model.safetensors"});
  write_text(dir / "run/state.safetensors", weights);
  expect_refused(run_cli({"train", "--resume", "--epochs", "2", "--out", dir / "run"}), {"state.safetensors"});
  write_text(dir / "run/config.json", "{\"format\": 1, \"data\": 7}");
  expect_refused(run_cli({"decode", dir / "run", "ab"}), {"config.json", "data"});
}

TEST(TrainVerb, ATransformerTrainsAndDecodes) {
  const TemporaryDirectory dir;
  const CliResult result =
      run_cli({"train",        "case",     "--train-size", "60",          "--valid-size", "5",      "--test-size", "5",
               "--max-length", "12",       "--model",      "transformer", "--width",      "16",     "--heads",     "2",
               "--inner",      "16",       "--layers",     "1",           "--positions",  "rotary", "--epochs",    "1",
               "--out",        dir / "run"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(run_cli({"decode", dir / "run", "<U> I am", "--plot", dir / "map.png"}).status, 0);
  const CliResult bad = run_cli({"decode", dir / "run", "no tag"});
  EXPECT_EQ(bad.status, 1);
  EXPECT_NE(bad.err.find("line 1"), std::string::npos) << bad.err;
  expect_refused(run_cli({"decode", dir / "run", "<U> a", "--plot", dir / "map.gif"}), {".png"});
}

}  // namespace
}  // namespace rapt::test
