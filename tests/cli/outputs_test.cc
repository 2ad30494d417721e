#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include <nlohmann/json.hpp>

#include "tests/cli/live_cli.h"

// Outputs that cannot be written are refused before the work, not after it.
namespace rapt::test {
namespace {

namespace fs = std::filesystem;

class Outputs : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = std::make_unique<TemporaryDirectory>();
    ASSERT_EQ(run_cli(small_run(*shared_ / "run", {"--attention", "dot", "--epochs", "1"})).status, 0);
    save_f4(*shared_ / "a.npy", {2, 2}, {1, 2, 3, 4});
    std::ofstream(*shared_ / "file") << "text";
  }
  static void TearDownTestSuite() { shared_.reset(); }
  static std::string at(const std::string& name) { return *shared_ / name; }
  static std::string run() { return at("run"); }

  // Nothing was printed, since nothing was done.
  static void expect_refused(const Words& command, const std::string& says) {
    const CliResult result = run_cli(command);
    EXPECT_EQ(result.status, 2) << command[0] << ": " << result.out;
    EXPECT_EQ(result.out, "") << command[0];
    EXPECT_TRUE(has(result.err, says)) << command[0] << ": " << result.err;
  }

  // Every verb that writes a file, without the file's name.
  static std::vector<Words> files() {
    return {{"evaluate", run(), "--predictions"},
            {"decode", run(), "ab", "--align"},
            {"decode", run(), "ab", "--format", "svg", "--plot"},
            {"plot", "heatmap", at("a.npy"), "--format", "svg", "--out"},
            {"plot", "curves", run(), "--format", "svg", "--out"},
            {"plot", "centers", run(), "--json", "--format", "svg", "--out"},
            {"explore", run(), "--out"}};
  }
  // Every verb that writes a directory.
  static std::vector<Words> directories() {
    return {{"attend", "--q", at("a.npy"), "--k", at("a.npy"), "--v", at("a.npy"), "--out"},
            {"conv", "--layer", at("none"), "--out"},
            {"solve", std::string(RAPT_SOURCE_DIR) + "/examples/001_1_2_one_head.json", "--plot"},
            {"train", "reverse", "--out"},
            {"train", "reverse", "--compare", "attention=none,dot", "--out"},
            {"evaluate", run(), "--write-split"},
            {"bench", "images", "--out"},
            {"bench", "multitask", "--out"},
            {"reproduce", "--quick", "--out"}};
  }
  static Words with(Words command, const std::string& name) {
    command.push_back(name);
    return command;
  }

 private:
  static std::unique_ptr<TemporaryDirectory> shared_;
};
std::unique_ptr<TemporaryDirectory> Outputs::shared_;

TEST_F(Outputs, FilesThatCannotBeWrittenAreRefusedBeforeTheWork) {
  for (const Words& command : files()) {
    const std::string option = command[0] == "plot" ? command[0] + " " + command[1] : command[0];
    const std::string start = "rapt: " + option + ": " + command.back() + ": expected a file";
    expect_refused(with(command, at("nowhere/x.svg")), start + " in a directory that exists, got '");
    expect_refused(with(command, at("file/x.svg")), start + " in a directory, got '");
    expect_refused(with(command, "/proc/x.svg"), start + " that can be written, got '/proc/x.svg': ");
    fs::create_directory(at("folder.svg"));
    expect_refused(with(command, at("folder.svg")), start + ", got the directory '");
  }
  EXPECT_FALSE(fs::exists(at("nowhere")));
}

TEST_F(Outputs, DirectoriesThatCannotBeMadeAreRefusedBeforeTheWork) {
  for (const Words& command : directories()) {
    const std::string start = ": " + command.back() + ": expected a directory";
    expect_refused(with(command, "-"), start + ", got '-', which is standard output");
    expect_refused(with(command, at("file")), start + ", got the file '" + at("file") + "'");
    expect_refused(with(command, at("file/x")), start + ", got '" + at("file/x") + "' below the file '");
    expect_refused(with(command, "/proc/x/y"), start + " that can be written to, got '/proc/x/y': ");
  }
  EXPECT_FALSE(fs::exists("-"));
}

TEST_F(Outputs, WhatCanBeWrittenIsAccepted) {
  const TemporaryDirectory dir;
  fs::create_symlink(dir / "later.tsv", dir / "link.tsv");
  for (const std::string& name : {dir / "new.tsv", dir / "link.tsv", std::string("/dev/null")}) {
    const CliResult result = run_cli({"evaluate", run(), "--predictions", name});
    EXPECT_EQ(result.status, 0) << result.err;
  }
  EXPECT_TRUE(fs::is_symlink(dir / "link.tsv"));
  EXPECT_EQ(text_of(dir / "later.tsv"), text_of(dir / "new.tsv"));
  EXPECT_EQ(run_cli({"evaluate", run(), "--write-split", dir / "new/split"}).status, 0);
  // The checks leave nothing behind.
  EXPECT_EQ(names_in(dir.path()), (Words{"later.tsv", "link.tsv", "new", "new.tsv"}));
}

TEST_F(Outputs, OneOfThemGoesToTheStandardOutput) {
  for (const char* name : {"-", "/dev/stdout"}) {
    const std::string got = ": expected one output to standard output, got --json and --";
    expect_refused({"decode", run(), "ab", "--json", "--align", name}, "decode" + got + "align " + name);
    expect_refused({"decode", run(), "ab", "--json", "--plot", name, "--format", "svg"}, "decode" + got + "plot ");
    expect_refused({"decode", run(), "ab", "--align", name, "--plot", "-", "--format", "svg"}, "got --align ");
    expect_refused({"evaluate", run(), "--json", "--predictions", name}, "evaluate" + got + "predictions ");
    expect_refused({"plot", "centers", run(), "--json", "--out", name, "--format", "svg"}, "plot centers" + got);
  }
  // Another name of the file behind it.
  const TemporaryDirectory dir;
  std::ofstream(dir / "both").close();
  EXPECT_EQ(run_cli_into(dir / "both", {"decode", run(), "ab", "--json", "--align", dir / "both"}).status, 2);
  const CliResult json = run_cli({"decode", run(), "ab", "--json", "--align", dir / "links"});
  EXPECT_EQ(nlohmann::json::parse(json.out).size(), 1U);
  // The scores are then printed for people.
  const CliResult table = run_cli({"evaluate", run(), "--predictions", "-"});
  EXPECT_EQ(table.status, 0);
  EXPECT_EQ(run_cli({"evaluate", run(), "--predictions", dir / "table"}).status, 0);
  EXPECT_EQ(table.out, text_of(dir / "table"));
  EXPECT_TRUE(has(table.err, "exact match")) << table.err;
}

TEST_F(Outputs, AComparisonIsCheckedBeforeItsFirstRun) {
  const auto compare = [](const std::string& what) { return small_run(at("all"), {"--compare", what}); };
  const std::string start = "train: --compare: expected ";
  expect_refused(compare("attention"), start + "NAME=VALUE,VALUE,… without empty values, got 'attention'");
  expect_refused(compare("=dot"), start + "NAME=VALUE,VALUE,…");
  expect_refused(compare("attention="), start + "NAME=VALUE,VALUE,…");
  expect_refused(compare("attention=dot,,none"), start + "NAME=VALUE,VALUE,…");
  expect_refused(compare("attention=dot,none,dot"), start + "each value once, got 'dot' twice");
  expect_refused(compare("nope=1,2"),
                 "train: --nope: expected an option for seq2seq models on task reverse, got another");
  expect_refused(compare("attention=dot,nope"), "train: --attention: expected one of ");
  expect_refused(compare("hidden=8,0"), "train: --hidden: expected 1 to ");
  EXPECT_FALSE(fs::exists(at("all")));
}

TEST_F(Outputs, AMissingRunIsNamed) {
  expect_refused({"train", "--resume", "--out", at("mistyped")},
                 "train: --resume: expected a run in " + at("mistyped") + ", or a TASK or --data FILE to start one");
}

}  // namespace
}  // namespace rapt::test
