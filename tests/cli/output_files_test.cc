#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/live_cli.h"

// How verbs write: regular files are replaced, anything else is written to, and "-" is standard output.
namespace rapt::test {
namespace {

namespace fs = std::filesystem;

class OutputFiles : public testing::Test {
 protected:
  void SetUp() override { save_f4(array(), {2, 2}, {1, 2, 3, 4}); }
  std::string array() const { return dir_ / "a.npy"; }
  CliResult plot(const Words& more) const {
    Words command{"plot", "heatmap", array()};
    command.insert(command.end(), more.begin(), more.end());
    return run_cli(command);
  }
  void expect_refused(const Words& more, const std::string& says) const {
    const CliResult result = plot(more);
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(lines_in(result.err), 1) << result.err;
    EXPECT_TRUE(has(result.err, says)) << result.err;
  }

  TemporaryDirectory dir_;
};

TEST_F(OutputFiles, APictureGoesToTheStandardOutput) {
  ASSERT_EQ(plot({"--out", dir_ / "map.svg"}).status, 0);
  const std::string svg = text_of(dir_ / "map.svg");
  for (const char* out : {"-", "/dev/stdout"}) {
    const CliResult result = plot({"--out", out, "--format", "svg"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, svg);
  }
  EXPECT_TRUE(plot({"--out", "-", "--format", "png"}).out.starts_with("\x89PNG"));
  EXPECT_TRUE(plot({"--out", "-", "--format", "pdf"}).out.starts_with("%PDF"));
  EXPECT_FALSE(fs::exists("-"));
  EXPECT_EQ(plot({"--out", "/dev/null", "--format", "png"}).status, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(OutputFiles, ANameWithoutAnEndingNeedsAFormat) {
  expect_refused({"--out", "-"}, "plot heatmap: --out: expected a name that ends in .svg, .png or .pdf, or --format");
  expect_refused({"--out", "/dev/null"}, "got '/dev/null'");
  expect_refused({"--out", "-", "--format", "gif"}, "plot heatmap: --format: ");
  expect_refused({"--out", dir_ / "map.svg", "--format", "png"}, "--format: expected what the name ");
  expect_refused({"--format", "svg"}, "plot heatmap: --format: expected --out with it, got none");
  EXPECT_FALSE(fs::exists(dir_ / "map.svg"));
}

TEST_F(OutputFiles, LinksAreWrittenThroughAndRegularFilesReplaced) {
  std::ofstream(dir_ / "old.svg") << "old";
  fs::create_hard_link(dir_ / "old.svg", dir_ / "second.svg");
  fs::create_symlink(dir_ / "old.svg", dir_ / "link.svg");
  ASSERT_EQ(plot({"--out", dir_ / "link.svg"}).status, 0);
  EXPECT_TRUE(fs::is_symlink(dir_ / "link.svg"));
  const std::string drawn = text_of(dir_ / "old.svg");
  EXPECT_NE(drawn, "old");
  EXPECT_EQ(text_of(dir_ / "second.svg"), drawn);
  // A program that has the old file open still sees it.
  ASSERT_EQ(plot({"--out", dir_ / "old.svg", "--title", "new"}).status, 0);
  EXPECT_EQ(text_of(dir_ / "second.svg"), drawn);
  EXPECT_NE(text_of(dir_ / "old.svg"), drawn);
}

TEST_F(OutputFiles, AnExplorerPageGoesThereAlone) {
  const TemporaryDirectory arrays;
  save_f4(arrays / "weights.npy", {1, 1, 2, 2}, {0.5f, 0.5f, 0.25f, 0.75f});
  for (const char* out : {"-", "/dev/stdout"}) {
    const CliResult result = run_cli({"explore", arrays.path().string(), "--out", out});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(result.out.starts_with("<!DOCTYPE html>") && result.out.ends_with("</html>\n"))
        << result.out.substr(result.out.size() - std::min<std::size_t>(result.out.size(), 80));
    EXPECT_TRUE(has(result.err, ": 1 layer, 1 head, ")) << result.err;
  }
}

TEST(OutputFilesOfAllVerbs, AreInTheHelp) { EXPECT_TRUE(has(run_cli({"--help"}).out, "- is the standard output")); }

}  // namespace
}  // namespace rapt::test
