#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

TEST(ReproduceCli, ListsItsParts) {
  const CliResult result = run_cli({"reproduce", "--list"});
  EXPECT_EQ(result.status, 0);
  for (const char* name : {"examples", "reversal", "case", "positions", "order", "formulas", "convolution", "images",
                           "shared_attention", "multitask", "speed"})
    EXPECT_NE(result.out.find(name), std::string::npos) << name;
}

TEST(ReproduceCli, SomePartsAloneGiveAReport) {
  const TemporaryDirectory directory;
  const CliResult result = run_cli({"reproduce", "formulas", "examples", "--quick", "--out", directory / "report"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("c = −‖Δ‖²"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(directory / "report/index.html"), std::string::npos);
  EXPECT_NE(result.err.find("part 1 of 2: examples"), std::string::npos) << result.err;
  EXPECT_TRUE(std::filesystem::exists(directory / "report/index.html"));
  EXPECT_EQ(names_in(directory.path().string()), std::vector<std::string>{"report"});
}

TEST(ReproduceCli, JsonGoesToTheStandardOutput) {
  const TemporaryDirectory directory;
  const CliResult result =
      run_cli({"reproduce", "order", "--quick", "--json", "--seed", "5", "--out", directory / "r"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["seed"], 5);
  EXPECT_EQ(json["parts"][0]["name"], "order");
  EXPECT_EQ(json["holds"], true);
}

TEST(ReproduceCli, BadInputIsRefusedBeforeAnyWork) {
  const TemporaryDirectory directory;
  const auto expect_refused = [](const std::vector<std::string>& arguments, const std::string& what) {
    const CliResult result = run_cli(arguments);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_NE(result.err.find(what), std::string::npos) << result.err;
  };
  expect_refused({"reproduce", "exampels", "--out", directory / "r"}, "reproduce: expected a part (examples, ");
  expect_refused({"reproduce", "order", "--seed", "x", "--out", directory / "r"}, "--seed");
  expect_refused({"reproduce", "order", "--seed", "-1", "--out", directory / "r"}, "--seed");
  expect_refused({"reproduce", "order", "--threads", "0", "--out", directory / "r"}, "--threads");
  EXPECT_TRUE(names_in(directory.path().string()).empty());
  std::filesystem::create_directories(directory / "mine/work");
  expect_refused({"reproduce", "order", "--out", directory / "mine"},
                 "or a report of rapt reproduce, got one that holds something else");
  EXPECT_EQ(names_in(directory / "mine"), std::vector<std::string>{"work"});
}

}  // namespace
}  // namespace rapt::test
