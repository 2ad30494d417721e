#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/live_cli.h"

// Ctrl-C: the first prints or saves what is done and ends a command, the second ends it at once.
namespace rapt::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Waiting more than a minute is a failure.
void wait_for(const std::string& path) {
  for (int n = 0; n < 600 && !fs::exists(path); ++n) ::usleep(100'000);
  EXPECT_TRUE(fs::exists(path)) << path;
}

TEST(Interrupts, DuringTheTestOneEndsAComparison) {
  const TemporaryDirectory dir;
  LiveCli both(small_run(dir / "both", {"--compare", "attention=none,dot", "--epochs", "1", "--max-length", "16",
                                        "--test-size", "30000", "--threads", "1"}));
  both.output_with("epoch   1");
  both.signal(SIGINT);
  EXPECT_EQ(both.wait(), 130);
  EXPECT_TRUE(has(both.rest(), "--resume")) << both.rest();
  EXPECT_TRUE(fs::exists(dir / "both/none/model.safetensors"));
  EXPECT_FALSE(fs::exists(dir / "both/dot"));
}

TEST(Interrupts, AComparisonOfImagesGoesOn) {
  const TemporaryDirectory dir;
  const Words command{"bench", "images", "shapes", "--quick", "--epochs", "1", "--json", "--out", dir / "runs"};
  const std::string first = dir / "runs/shapes/quadratic-1";
  LiveCli bench(command);
  wait_for(first + "/config.json");
  bench.signal(SIGINT);
  EXPECT_EQ(bench.wait(), 130);
  EXPECT_TRUE(has(bench.messages(), "; run the same command to continue")) << bench.messages();
  EXPECT_FALSE(fs::exists(first + "/.lock"));
  wait_for(first + "/state.safetensors");
  // An interrupted and resumed run learns what an undisturbed one does.
  const CliResult second = run_cli(command);
  ASSERT_EQ(second.status, 0) << second.err;
  ASSERT_EQ(run_cli({"bench", "images", "shapes", "--quick", "--epochs", "1", "--out", dir / "whole"}).status, 0);
  EXPECT_EQ(text_of(first + "/model.safetensors"), text_of(dir / "whole/shapes/quadratic-1/model.safetensors"));
  EXPECT_EQ(Json::parse(second.out)["rows"].size(), 6U);
}

TEST(Interrupts, AReportSavesWhatIsTrained) {
  const TemporaryDirectory dir;
  LiveCli report({"reproduce", "reversal", "--quick", "--threads", "1", "--out", dir / "report"});
  // A report is under a hidden name until it is complete.
  const auto trains = [&] {
    for (const std::string& name : names_in(dir.path().string()))
      if (fs::exists(dir / (name + "/runs/reversal/none/config.json"))) return true;
    return false;
  };
  for (int n = 0; n < 600 && !trains(); ++n) ::usleep(100'000);
  report.signal(SIGINT);
  EXPECT_EQ(report.wait(), 128 + SIGINT);
  EXPECT_TRUE(has(report.messages(), "report.unfinished; run the same command to continue")) << report.messages();
  EXPECT_TRUE(fs::exists(dir / "report.unfinished/runs/reversal/none/state.safetensors"));
  EXPECT_FALSE(fs::exists(dir / "report"));
}

// Those of the first command, whatever the second asks for.
void expect_to_own(const Words& first, const Words& second, const std::string& run) {
  LiveCli owner(first);
  wait_for(run + "/config.json");
  const std::string before = text_of(run + "/config.json");
  const CliResult other = run_cli(second);
  EXPECT_EQ(other.status, 2) << other.out;
  EXPECT_TRUE(has(other.err, "rapt: bench ")) << other.err;
  EXPECT_TRUE(has(other.err, "in use by process " + std::to_string(owner.process()) + " ")) << other.err;
  EXPECT_EQ(text_of(run + "/config.json"), before);
  owner.signal(SIGINT);
  EXPECT_EQ(owner.wait(), 130);
}

TEST(Interrupts, TheRunsOfAComparisonBelongToOneProcess) {
  const TemporaryDirectory dir;
  const Words images{"bench", "images", "shapes", "--out", dir / "images"};
  Words others = images;
  others.insert(others.end(), {"--epochs", "3"});
  expect_to_own(images, others, dir / "images/shapes/quadratic-1");
  // A setting that differs is named.
  others.emplace_back("--quick");
  const CliResult quick = run_cli(others);
  EXPECT_EQ(quick.status, 2);
  EXPECT_TRUE(has(quick.err, "bench images: setting train_size: expected 4000 as in ")) << quick.err;

  std::ofstream(dir / "tiny.json") << R"({"data": {"size": 16, "train_size": 400, "valid_size": 4, "test_size": 6},
    "model": {"tasks": "depth", "width": 8, "inner": 8, "stages": 1}, "training": {"epochs": 1000, "batch": 8}})";
  const Words scenes{"bench", "multitask", "--seeds",         "1",     "--threads",
                     "1",     "--config",  dir / "tiny.json", "--out", dir / "scenes"};
  Words longer = scenes;
  longer.insert(longer.end(), {"--epochs", "2000"});
  expect_to_own(scenes, longer, dir / "scenes/single_depth_1");
}

// With this many repeats one row takes minutes.
TEST(Interrupts, RowsOfABenchmarkEndWithWhatIsDone) {
  const Words endless{"--shape", "1,1,32,8", "--threads", "1", "--no-naive", "--quick", "--repeat", "1000000"};
  for (const Words& verb : {Words{"bench", "scaled_dot", "alibi"}, Words{"bench", "train", "small_lstm"},
                            Words{"bench", "calls"}, Words{"bench", "shared"}}) {
    Words command = verb;
    for (std::size_t n = verb[1] == "train" ? 2 : verb[1] == "calls" ? 5 : 0; n < endless.size(); ++n)
      if (verb[1] != "calls" || endless[n] != "--threads") command.push_back(endless[n]);
    LiveCli bench(command);
    ::usleep(1'500'000);
    bench.signal(SIGINT);
    EXPECT_EQ(bench.wait(), 130) << verb[1];
    EXPECT_TRUE(has(bench.messages(), "stopped after 0 of ")) << verb[1] << ": " << bench.messages();
    EXPECT_GE(lines_in(bench.rest()), 1) << verb[1];
  }
}

TEST(Interrupts, AListOfRowsKeepsThoseThatAreDone) {
  for (const Words& kind :
       {Words{"growth"}, Words{"memory", "--shape", "1,2,16384,32"}, Words{"--random", "5000", "--quick"}}) {
    Words command{"bench"};
    command.insert(command.end(), kind.begin(), kind.end());
    command.insert(command.end(), {"--threads", "1", "--json"});
    LiveCli bench(command);
    ::usleep(2'000'000);
    bench.signal(SIGINT);
    EXPECT_EQ(bench.wait(), 130) << kind[0];
    EXPECT_TRUE(has(bench.messages(), ": stopped after ")) << kind[0] << ": " << bench.messages();
    const Json result = Json::parse(bench.rest(), nullptr, false);
    ASSERT_TRUE(result.is_object()) << kind[0];
    EXPECT_TRUE(result["rows"].is_array());
    EXPECT_EQ(result["stopped"], true);
  }
}

// A single row may take a minute.
TEST(Interrupts, ARowOfMemoryIsNotWaitedFor) {
  LiveCli bench({"bench", "memory", "additive", "--threads", "1", "--shape", "1,4,32768,64"});
  ::usleep(500'000);
  const auto start = std::chrono::steady_clock::now();
  bench.signal(SIGINT);
  EXPECT_EQ(bench.wait(), 130);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_TRUE(has(bench.messages(), "stopped after 0 of 1 row")) << bench.messages();
}

// A graceful end has the same status; the difference is that nothing is printed.
TEST(Interrupts, TheSecondEndsAtOnce) {
  LiveCli bench({"bench", "scaled_dot", "--threads", "1"});  // its rates alone take half a second and more
  ::usleep(500'000);
  bench.signal(SIGINT);
  ::usleep(50'000);
  bench.signal(SIGINT);
  EXPECT_EQ(bench.wait(), 128 + SIGINT);
  EXPECT_FALSE(has(bench.messages(), "stopped")) << bench.messages();
}

class InterruptedAnswers : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryDirectory;
    ASSERT_EQ(run_cli(small_run(*folder_ / "run", {"--max-length", "12", "--hidden", "64"})).status, 0);
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string run() { return *folder_ / "run"; }

  static TemporaryDirectory* folder_;
};
TemporaryDirectory* InterruptedAnswers::folder_ = nullptr;

TEST_F(InterruptedAnswers, EvaluateScoresWhatItHas) {
  const TemporaryDirectory dir;
  std::ofstream lines(dir / "lines.tsv");
  for (int n = 0; n < 20'000; ++n) {
    std::string source;
    for (int m = n; static_cast<int>(source.size()) < 10; m /= 4) source += static_cast<char>('a' + m % 4);
    lines << source << '\t' << std::string(source.rbegin(), source.rend()) << '\n';
  }
  lines.close();
  LiveCli evaluate({"evaluate", run(), "--data", dir / "lines.tsv", "--beam", "20", "--json", "--threads", "1"});
  ::usleep(3'000'000);
  evaluate.signal(SIGINT);
  EXPECT_EQ(evaluate.wait(), 130);
  EXPECT_TRUE(has(evaluate.messages(), " of 20000 sources, the shortest ones")) << evaluate.messages();
  const Json result = Json::parse(evaluate.rest(), nullptr, false);
  ASSERT_TRUE(result.is_object()) << evaluate.rest();
  EXPECT_EQ(result["stopped"], true);
  EXPECT_GT(result["sequences"], 0);
  EXPECT_LT(result["sequences"], 20'000);
}

TEST_F(InterruptedAnswers, DecodeEndsWhileItWaitsAndKeepsWhatItHas) {
  const TemporaryDirectory dir;
  LiveCli decode({"decode", run(), "--align", dir / "links"});
  decode.write("abc\n");
  decode.output_with("\n");
  decode.signal(SIGINT);
  EXPECT_EQ(decode.wait(), 130);
  EXPECT_EQ(lines_in(text_of(dir / "links")), 1);
  EXPECT_EQ(decode.messages(), "rapt: decode: stopped after 1 line\n");
}

TEST_F(InterruptedAnswers, DecodeLeavesNoGaps) {
  const TemporaryDirectory dir;
  const Words command{"decode", run(), "--beam", "20", "--threads", "1"};
  // The long one comes first and is decoded last.
  std::string lines = std::string(200, 'a') + "\n";
  for (int n = 0; n < 20'000; ++n) lines += "abcd\n\n";
  LiveCli decode(command);
  decode.write(lines.substr(0, 60'000));
  ::usleep(500'000);
  decode.signal(SIGINT);
  EXPECT_EQ(decode.wait(), 130);
  const std::string out = decode.rest();
  EXPECT_TRUE(has(decode.messages(), "stopped after " + std::to_string(lines_in(out)) + " line")) << decode.messages();
}

}  // namespace
}  // namespace rapt::test
