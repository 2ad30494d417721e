#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "rapt/subwords.h"
#include "rapt/trained_model.h"
#include "tensor/safetensors.h"
#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Json config_of(const std::string& run) { return Json::parse(content_of(run + "/config.json")); }

bool holds(const Json& list, const std::string& symbol) {
  return std::find(list.begin(), list.end(), symbol) != list.end();
}

void expect_no(const CliResult& result, const Words& parts) {
  EXPECT_EQ(result.status, 2) << result.out;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  for (const std::string& part : parts) EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
}

// Sentences of a few words and their translations; each name is seen once.
void write_sentences(const std::string& path, int count = 120) {
  const Words subjects{"walker", "talker", "jumper"};
  const Words verbs{"walks", "talks", "jumps", "walked", "talked"};
  std::string text;
  for (int n = 0; n < count; ++n) {
    const std::string s = subjects[static_cast<std::size_t>(n) % 3] + " " + verbs[static_cast<std::size_t>(n / 3) % 5];
    text += s + " name" + std::to_string(n) + "\t" + s + "\n";
  }
  std::ofstream(path, std::ios::binary) << text;
}

Words small(const std::string& data, const std::string& out, const Words& more = {}) {
  const Words usual{"--epochs", "2", "--hidden", "16", "--embedding", "8", "--batch", "16"};
  Words all{"train", "--data", data, "--out", out};
  for (std::size_t n = 0; n < usual.size(); n += 2)
    if (std::find(more.begin(), more.end(), usual[n]) == more.end()) all.insert(all.end(), {usual[n], usual[n + 1]});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(VocabularyOptions, OneIsSaidInTheSingular) {
  const TemporaryDirectory dir;
  std::ofstream(dir / "data.tsv", std::ios::binary) << "a b\tc\n";
  const CliResult trained = run_cli(small(dir / "data.tsv", dir / "run", {"--tokens", "words", "--threads", "1"}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  for (const char* part :
       {"\n1 example to train on, ", "; 2 source symbols, 1 target symbol; 1 step an epoch, 1 thread\n"})
    EXPECT_NE(trained.out.find(part), std::string::npos) << trained.out;
}

TEST(VocabularyOptions, RareWordsAreUnknown) {
  const TemporaryDirectory dir;
  write_sentences(dir / "data.tsv");
  const CliResult trained = run_cli(small(dir / "data.tsv", dir / "run", {"--tokens", "words", "--min-count", "2"}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.out.find("8 source symbols, 8 target symbols"), std::string::npos) << trained.out;
  const Json config = config_of(dir / "run");
  EXPECT_EQ(config["source_vocabulary"].size(), 8U);
  EXPECT_TRUE(holds(config["source_vocabulary"], "walker"));
  EXPECT_FALSE(holds(config["source_vocabulary"], "name1"));
  EXPECT_EQ(config["data"]["min_count"], 2);
  const CliResult decoded = run_cli({"decode", dir / "run", "walker walks name1"});
  ASSERT_EQ(decoded.status, 0) << decoded.err;
  EXPECT_NE(decoded.err.find("'name1' is not in the vocabulary; it is read as unknown"), std::string::npos)
      << decoded.err;
  // Options may be repeated; another value is refused by name.
  EXPECT_EQ(run_cli({"train", "--resume", "--min-count", "2", "--out", dir / "run"}).status, 0);
  expect_no(run_cli({"train", "--resume", "--min-count", "3", "--out", dir / "run"}),
            {"--min-count", "expected 2", "got 3"});
  expect_no(run_cli({"train", "--resume", "--unknown-dropout", "0", "--out", dir / "run"}),
            {"--unknown-dropout", "expected 0.25", "got 0"});
  expect_no(run_cli({"train", "--resume", "--skip-long", "--out", dir / "run"}), {"--skip-long", "expected false"});
  // A run's own config.json makes another run.
  EXPECT_EQ(run_cli({"train", "--config", dir / "run/config.json", "--epochs", "1", "--out", dir / "other"}).status, 0);
  EXPECT_EQ(config_of(dir / "other")["source_vocabulary"], config["source_vocabulary"]);
}

TEST(VocabularyOptions, TheMostFrequentSymbolsAreKept) {
  const TemporaryDirectory dir;
  write_sentences(dir / "data.tsv");
  const Words options{"--tokens", "words", "--vocabulary", "3", "--epochs", "1"};
  ASSERT_EQ(run_cli(small(dir / "data.tsv", dir / "run", options)).status, 0);
  const Json config = config_of(dir / "run");
  for (const char* side : {"source_vocabulary", "target_vocabulary"}) {
    EXPECT_EQ(config[side].size(), 3U);
    EXPECT_TRUE(holds(config[side], "walker")) << config[side];
  }
}

// The row of the unknown symbol in a table of embeddings.
std::vector<float> unknown_row(const std::string& run, const char* name) {
  const Safetensors file = read_safetensors(run + "/state.safetensors");
  const Array* table = file.find(name);
  if (!table) return {};
  const auto width = static_cast<std::size_t>(table->shape()[1]);
  const std::span<const float> values = table->as<float>().subspan(3 * width, width);
  return {values.begin(), values.end()};
}

TEST(VocabularyOptions, TheUnknownSymbolIsTrained) {
  const TemporaryDirectory dir;
  write_sentences(dir / "data.tsv");
  for (const char* epochs : {"1", "3"}) {
    const std::string out = epochs;
    // Adam with a constant rate: a row without gradients never moves.
    const Words usual{"--tokens", "words", "--epochs", epochs, "--schedule", "constant"};
    ASSERT_EQ(run_cli(small(dir / "data.tsv", dir / ("with" + out), usual)).status, 0);
    Words without = usual;
    without.insert(without.end(), {"--unknown-dropout", "0"});
    ASSERT_EQ(run_cli(small(dir / "data.tsv", dir / ("without" + out), without)).status, 0);
  }
  for (const char* name : {"encoder.embedding", "decoder.embedding"}) {
    ASSERT_EQ(unknown_row(dir / "with1", name).size(), 8U) << name;
    EXPECT_EQ(unknown_row(dir / "without1", name), unknown_row(dir / "without3", name)) << name;
    EXPECT_NE(unknown_row(dir / "with1", name), unknown_row(dir / "with3", name)) << name;
    EXPECT_NE(unknown_row(dir / "with3", name), unknown_row(dir / "without3", name)) << name;
  }
}

TEST(VocabularyOptions, ARunFromBeforeGoesOnWithoutThem) {
  const TemporaryDirectory dir;
  write_sentences(dir / "data.tsv");
  ASSERT_EQ(run_cli(small(dir / "data.tsv", dir / "run", {"--tokens", "words", "--unknown-dropout", "0"})).status, 0);
  Json config = config_of(dir / "run");
  for (const char* name : {"min_count", "vocabulary", "subwords", "unknown_dropout", "skip_long"})
    EXPECT_EQ(config["data"].erase(name), 1U) << name;
  EXPECT_EQ(config.erase("checksum"), 1U);
  std::ofstream(dir / "run/config.json") << config.dump(2);
  const CliResult resumed = run_cli({"train", "--resume", "--epochs", "3", "--out", dir / "run"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(config_of(dir / "run")["data"]["unknown_dropout"], 0);
}

TEST(VocabularyOptions, LongLinesAreSkippedAndCounted) {
  const TemporaryDirectory dir;
  write_sentences(dir / "data.tsv");
  std::ofstream(dir / "data.tsv", std::ios::app) << "a b c d e\ta\nwalker\t1 2 3 4 5 6\n";
  const Words options{"--tokens", "words", "--longest", "4"};
  expect_no(run_cli(small(dir / "data.tsv", dir / "run", options)),
            {"data.tsv:121", "a source of at most 4 words (--longest), got 5", "--skip-long"});
  EXPECT_TRUE(names_in(dir / "run").empty());
  Words skipping = options;
  skipping.emplace_back("--skip-long");
  const CliResult trained = run_cli(small(dir / "data.tsv", dir / "run", skipping));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.out.find("skipped 2 lines of more than 4 tokens"), std::string::npos) << trained.out;
  EXPECT_EQ(config_of(dir / "run")["skipped_lines"], 2);
  const CliResult evaluated = run_cli({"evaluate", dir / "run", "--data", dir / "data.tsv", "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_EQ(Json::parse(evaluated.out)["sequences"], 120);
  EXPECT_NE(evaluated.err.find("skipped 2 lines"), std::string::npos) << evaluated.err;
  EXPECT_EQ(run_cli({"train", "--resume", "--epochs", "3", "--out", dir / "run"}).status, 0);
  EXPECT_EQ(config_of(dir / "run")["skipped_lines"], 2);
}

TEST(VocabularyOptions, BadValues) {
  const TemporaryDirectory dir;
  write_sentences(dir / "data.tsv", 20);
  const auto with = [&](const Words& more) { return run_cli(small(dir / "data.tsv", dir / "x", more)); };
  expect_no(with({"--min-count", "0"}), {"--min-count: expected 1 to", "got 0"});
  expect_no(with({"--min-count", "2.5"}), {"--min-count: expected a whole number, got '2.5'"});
  expect_no(with({"--min-count", "9999"}), {"--min-count: expected at most", "got 9999"});
  expect_no(with({"--vocabulary", "-1"}), {"--vocabulary: expected 0 to", "got -1"});
  expect_no(with({"--vocabulary", "many"}), {"--vocabulary: expected a whole number, got 'many'"});
  expect_no(with({"--unknown-dropout", "-1"}), {"--unknown-dropout: expected 0 to", "got -1"});
  expect_no(with({"--tokens", "syllables"}), {"expected characters, words or subwords, got 'syllables'"});
  expect_no(with({"--tokens", "subwords", "--subwords", "wordpiece"}),
            {"--subwords: expected bpe or unigram, got 'wordpiece'"});
  expect_no(with({"--subwords", "bpe"}), {"--subwords: expected --tokens subwords", "got characters"});
  expect_no(run_cli({"train", "reverse", "--min-count", "2", "--out", dir / "x"}), {"--min-count", "reverse"});
  EXPECT_FALSE(std::filesystem::exists(dir / "x"));
}

#if !RAPT_HAS_SUBWORDS

TEST(Subwords, AreRefusedWithoutTheirLibrary) {
  const TemporaryDirectory dir;
  write_sentences(dir / "data.tsv");
  expect_no(run_cli(small(dir / "data.tsv", dir / "run", {"--tokens", "subwords"})),
            {"expected a program that is built with SentencePiece, got one without it"});
  EXPECT_FALSE(std::filesystem::exists(dir / "run"));
}

#else

TEST(Subwords, ARunHasAllThatItNeeds) {
  const TemporaryDirectory dir;
  write_sentences(dir / "data.tsv");
  const Words options{"--tokens", "subwords", "--vocabulary", "40", "--epochs", "12", "--rate", "0.02"};
  const CliResult trained = run_cli(small(dir / "data.tsv", dir / "run", options));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(names_in(dir / "run"), (Words{"config.json", "metrics.jsonl", "model.safetensors", "source_subwords.model",
                                          "state.safetensors", "target_subwords.model"}));
  const Json config = config_of(dir / "run");
  EXPECT_LE(config["source_vocabulary"].size(), 40U);
  EXPECT_GT(config["source_vocabulary"].size(), 20U);

  const CliResult evaluated =
      run_cli({"evaluate", dir / "run", "--split", "train", "--predictions", dir / "answers.tsv", "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  const Json scores = Json::parse(evaluated.out);
  const std::string table = content_of(dir / "answers.tsv");
  EXPECT_EQ(table.find("▁"), std::string::npos);
  EXPECT_NE(table.find("\twalker walks\t"), std::string::npos) << table.substr(0, 400);
  std::int64_t right = 0;
  for (std::size_t at = table.find("\tyes\n"); at != std::string::npos; at = table.find("\tyes\n", at + 1)) ++right;
  EXPECT_NEAR(scores["exact_match"].get<double>() * scores["sequences"].get<double>(), right, 1e-6);
  EXPECT_GT(right, 10);
  ASSERT_EQ(run_cli({"evaluate", dir / "run", "--write-split", dir / "split"}).status, 0);
  EXPECT_NE(content_of(dir / "split/train.tsv").find("walker walks name"), std::string::npos);

  // Without the data: the run's directory is enough, also under another name.
  std::filesystem::remove(dir / "data.tsv");
  std::filesystem::rename(dir / "run", dir / "moved");
  const CliResult decoded = run_cli({"decode", dir / "moved", "jumper  talked\tnames", "walker☃ walks", "a▁b"});
  EXPECT_EQ(decoded.status, 1) << decoded.err;
  EXPECT_EQ(decoded.out.find("▁"), std::string::npos) << decoded.out;
  EXPECT_NE(decoded.err.find("line 2: '☃' is not in the vocabulary"), std::string::npos) << decoded.err;
  EXPECT_NE(decoded.err.find("line 3"), std::string::npos) << decoded.err;
  const CliResult page = run_cli(
      {"explore", dir / "moved", "--text", "walker walks", "--target", "walker walks", "--out", dir / "page.html"});
  EXPECT_EQ(page.status, 0) << page.err;

  // A damaged file is refused by name.
  std::string bytes = content_of(dir / "moved/target_subwords.model");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(dir / "moved/target_subwords.model", std::ios::binary) << bytes;
  expect_no(run_cli({"decode", dir / "moved", "walker"}),
            {"target_subwords.model is damaged", "expected the checksum"});
  std::filesystem::remove(dir / "moved/target_subwords.model");
  expect_no(run_cli({"decode", dir / "moved", "walker"}), {"target_subwords.model"});
}

TEST(Subwords, AProgramOpensTheRunToo) {
  const TemporaryDirectory dir;
  write_sentences(dir / "data.tsv");
  ASSERT_EQ(run_cli(small(dir / "data.tsv", dir / "run", {"--tokens", "subwords", "--vocabulary", "40"})).status, 0);
  use_subwords();
  const TrainedModel model(dir / "run");
  for (const char* text : {"walker walks", "jumper talked names"}) {
    const CliResult decoded = run_cli({"decode", dir / "run", text});
    ASSERT_EQ(decoded.status, 0) << decoded.err;
    EXPECT_EQ(model(text) + "\n", decoded.out);
    EXPECT_EQ(model.decode(std::vector<std::string>{text}, {.beam = 3})[0][0].text.find("▁"), std::string::npos);
  }
}

TEST(Subwords, SameRunOnAnyNumberOfThreadsAndResumed) {
  const TemporaryDirectory dir;
  write_sentences(dir / "data.tsv");
  for (const char* kind : {"bpe", "unigram"}) {
    const std::string name = kind;
    const Words options{"--tokens", "subwords", "--subwords", kind, "--vocabulary", "40", "--min-count", "3"};
    const auto with = [&](const Words& more) {
      Words all = options;
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    ASSERT_EQ(run_cli(small(dir / "data.tsv", dir / (name + "1"), with({"--threads", "1"}))).status, 0);
    ASSERT_EQ(run_cli(small(dir / "data.tsv", dir / (name + "3"), with({"--threads", "3"}))).status, 0);
    for (const char* file : {"config.json", "model.safetensors", "source_subwords.model", "target_subwords.model"})
      EXPECT_EQ(content_of(dir / (name + "1/" + file)), content_of(dir / (name + "3/" + file))) << file;
    // As one that was killed before its first state.
    std::filesystem::remove(dir / (name + "3/state.safetensors"));
    const CliResult resumed = run_cli(small(dir / "data.tsv", dir / (name + "3"), with({"--resume"})));
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_EQ(content_of(dir / (name + "1/model.safetensors")), content_of(dir / (name + "3/model.safetensors")));
    expect_no(
        run_cli({"train", "--resume", "--subwords", name == "bpe" ? "unigram" : "bpe", "--out", dir / (name + "3")}),
        {"--subwords", "expected '" + name + "' as in "});
  }
}

TEST(Subwords, OneSideAndItsLimits) {
  const TemporaryDirectory dir;
  write_sentences(dir / "data.tsv");
  const Words source{"--source-tokens", "subwords", "--target-tokens", "words", "--vocabulary", "30", "--epochs", "1"};
  ASSERT_EQ(run_cli(small(dir / "data.tsv", dir / "run", source)).status, 0);
  EXPECT_EQ(names_in(dir / "run"),
            (Words{"config.json", "metrics.jsonl", "model.safetensors", "source_subwords.model", "state.safetensors"}));
  EXPECT_EQ(run_cli({"decode", dir / "run", "walker walks"}).status, 0);
  expect_no(run_cli(small(dir / "data.tsv", dir / "x", {"--tokens", "subwords", "--vocabulary", "5"})),
            {"--vocabulary: expected at least", "characters of the sources", "got 5"});
  // Lengths are counted in subwords, and only they know them.
  const Words cut{"--tokens", "subwords", "--vocabulary", "30", "--longest", "5", "--epochs", "1"};
  expect_no(run_cli(small(dir / "data.tsv", dir / "x", cut)), {"data.tsv:", "at most 5 subwords (--longest), got"});
  EXPECT_FALSE(std::filesystem::exists(dir / "x"));
  std::ofstream(dir / "data.tsv", std::ios::app) << "walker\ttalker\n";
  Words skipping = cut;
  skipping.emplace_back("--skip-long");
  const CliResult skipped = run_cli(small(dir / "data.tsv", dir / "short", skipping));
  ASSERT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_GT(config_of(dir / "short")["skipped_lines"].get<int>(), 20);
  EXPECT_NE(skipped.out.find("skipped "), std::string::npos);
}

#endif

}  // namespace
}  // namespace rapt::test
