// What the tool loads when it starts, as the loader of glibc lists it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/cli/run_cli.h"

namespace rapt {
namespace {

using test::run_cli;

// An environment variable for the children of one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(Start, LoadsNothingForPicturesOrBenchmarks) {
  std::string list;
  {
    const Variable trace("LD_TRACE_LOADED_OBJECTS", "1");
    list = run_cli({"--version"}).out;
  }
  if (list.find("libc.so") == std::string::npos) GTEST_SKIP() << "skipped: the loader lists no libraries";
  for (const char* name : {"rsvg", "cairo", "pango", "fontconfig", "freetype", "gobject", "libX11", "openblas"})
    EXPECT_EQ(list.find(name), std::string::npos) << name << " in\n" << list;
  // The system's libraries, and those of MPI, SentencePiece and the explorer's server. Each adds to the start-up time.
  EXPECT_LE(std::count(list.begin(), list.end(), '\n'), 25) << list;
}

TEST(Start, APictureWithoutItsLibraryIsRefusedAndTheRestWorks) {
  if (std::getenv("LD_LIBRARY_PATH") != nullptr) GTEST_SKIP() << "skipped: LD_LIBRARY_PATH is set";
  const test::TemporaryDirectory directory;
  const std::string broken = directory / "libraries", map = directory / "map.npy";
  std::filesystem::create_directory(broken);
  std::ofstream(broken + "/librsvg-2.so.2") << "not a library";
  test::save_f4(map, {2, 2}, {0.25, 0.75, 0.5, 0.5});
  const std::string png = directory / "map.png", svg = directory / "map.svg";
  const Variable path("LD_LIBRARY_PATH", broken);

  const test::CliResult refused = run_cli({"plot", "heatmap", map, "--out", png});
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_NE(refused.err.find("pictures: expected the library librsvg-2.so.2, got: "), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(png));

  const test::CliResult drawn = run_cli({"plot", "heatmap", map, "--out", svg});
  EXPECT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_TRUE(std::filesystem::exists(svg));
}

}  // namespace
}  // namespace rapt
