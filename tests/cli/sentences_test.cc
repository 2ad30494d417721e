#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/cli/live_cli.h"

// Errors as a user sees them: the whole sentence, what was expected and what was given.
namespace rapt::test {
namespace {

class Sentences : public testing::Test {
 protected:
  void expect(const Words& command, const std::string& sentence) const {
    const CliResult result = run_cli(command);
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_TRUE(result.err.starts_with("rapt: " + sentence)) << result.err;
  }
  void expect_train(const Words& more, const std::string& sentence) const {
    expect(small_run(dir_ / "run", more), "train: " + sentence);
  }

  TemporaryDirectory dir_;
};

TEST_F(Sentences, OfSettings) {
  const std::string takes = ": expected an option for seq2seq models on task reverse, got another\n";
  expect_train({"--positions", "rotary"}, "--positions" + takes);
  // The option that was given, not the two settings that it stands for.
  expect_train({"--tokens", "words"}, "--tokens" + takes);
  expect_train({"--source-tokens", "words"}, "--source-tokens" + takes);
  expect({"train", "digits", "--hidden", "8", "--out", dir_ / "run"},
         "train: --hidden: expected an option for attention models on task digits, got another\n");
  expect({"train", "scenes", "--hidden", "8", "--out", dir_ / "run"},
         "train: --hidden: expected an option for models on task scenes, got another\n");
  expect_train({"--cell", "lstn"}, "--cell: expected rnn, gru or lstm, got 'lstn'\n");
  expect_train({"--min-length", "9", "--max-length", "3"}, "--min-length: expected at most --max-length, 3, got 9\n");
  const CliResult tasks = run_cli({"train", "scenes", "--tasks", "foo", "--out", dir_ / "run"});
  EXPECT_TRUE(has(tasks.err, "tasks: expected all, or some of segmentation, ")) << tasks.err;
  EXPECT_TRUE(tasks.err.ends_with(", got 'foo'\n")) << tasks.err;
}

TEST_F(Sentences, OfRuns) {
  expect({"evaluate", dir_ / "nope"},
         "expected the directory of a run, got '" + (dir_ / "nope") + "', which does not exist\n");
  std::ofstream(dir_ / "file") << "text";
  expect({"evaluate", dir_ / "file"},
         "expected the directory of a run, got '" + (dir_ / "file") + "', which is not a directory\n");
  std::ofstream(dir_ / "pairs.tsv") << "ab\tx\nba\ty\nbb\tz\naa\tx\nabb\ty\n";
  const Words start{"train",    "--data", dir_ / "pairs.tsv", "--valid", dir_ / "pairs.tsv",
                    "--hidden", "4",      "--epochs",         "1",       "--embedding",
                    "4",        "--out",  dir_ / "own"};
  ASSERT_EQ(run_cli(start).status, 0);
  Words again = start;
  again.insert(again.end(), {"--resume", "--test", dir_ / "pairs.tsv"});
  expect(again, "train: --test: expected none, as in " + (dir_ / "own") + ", got '" + (dir_ / "pairs.tsv") +
                    "'; a resumed run keeps its settings, except --epochs and --patience\n");
  expect(start, "train: --out: expected a new directory, or --resume to continue the run, got ");
  expect({"plot", "scenes", dir_ / "own", "--out", dir_ / "x.svg"},
         "plot scenes: " + (dir_ / "own") + ": expected a run on scenes, got one on pairs\n");
  expect({"plot", "centers", dir_ / "own", "--out", dir_ / "x.svg"},
         "plot centers: " + (dir_ / "own") + ": expected a run on images, got one on pairs\n");
}

TEST_F(Sentences, OfArrays) {
  save_f4(dir_ / "a.npy", {1, 2}, {1, 2});
  save_f4(dir_ / "bias.npy", {2, 2}, {1, 2, 3, 4});
  expect({"attend", "--q", dir_ / "a.npy", "--k", dir_ / "a.npy", "--v", dir_ / "a.npy", "--bias", dir_ / "bias.npy",
          "--out", dir_ / "out"},
         "attend: --bias: expected shape [1, 1, 1, 1], got ");
  expect({"plot", "heatmap", dir_ / "bias.npy", "--head", "0", "--out", dir_ / "x.svg"},
         "plot heatmap: --head: expected an array with heads, got [2, 2]\n");
}

TEST_F(Sentences, OfCountsThatLeaveNothing) {
  std::ofstream(dir_ / "pairs.tsv") << "ab\tx\ncd\ty\nef\tz\ngh\tx\n";
  const CliResult result = run_cli(
      {"train", "--data", dir_ / "pairs.tsv", "--tokens", "subwords", "--min-count", "90", "--out", dir_ / "run"});
  EXPECT_EQ(result.status, 2);
  if (has(result.err, "SentencePiece")) GTEST_SKIP() << "skipped: built without SentencePiece";
  EXPECT_TRUE(has(result.err, "--min-count: expected a count that keeps at least one source character, got 90"))
      << result.err;
}

}  // namespace
}  // namespace rapt::test
