#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/live_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;

Words small(const std::string& out, const Words& more = {}) {
  Words all{"train",    "digits", "--epochs", "2", "--width", "8", "--heads", "4",
            "--layers", "2",      "--inner",  "8", "--out",   out, "--json"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(ImagesOnTheCommandLine, TrainEvaluateAndPlot) {
  const TemporaryDirectory dir;
  const CliResult trained = run_cli(small(dir / "run"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Json result = Json::parse(trained.out);
  EXPECT_EQ(result["images"], 360);
  EXPECT_GT(result["accuracy"].get<double>(), 0.05);
  const CliResult evaluated = run_cli({"evaluate", dir / "run", "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_EQ(Json::parse(evaluated.out)["accuracy"], result["accuracy"]);
  expect_refused(run_cli({"evaluate", dir / "run", "--beam", "3"}), {"run on sequences"});

  const CliResult centers = run_cli({"plot", "centers", dir / "run", "--json", "--out", dir / "centers.svg"});
  ASSERT_EQ(centers.status, 0) << centers.err;
  const Json report = Json::parse(centers.out);
  EXPECT_EQ(report["first_epoch"], 0);
  EXPECT_EQ(report["layers"].size(), 2U);
  EXPECT_EQ(report["layers"][1]["distance"].size(), 3U);
  EXPECT_EQ(report["layers"][0]["grid_last"]["side"], 2);

  const CliResult maps = run_cli({"plot", "maps", dir / "run", "17", "--pixel", "0,7", "--out", dir / "maps.svg"});
  ASSERT_EQ(maps.status, 0) << maps.err;
  save_f4(dir / "image.npy", {8, 8}, Numbers(64, 0.5));
  EXPECT_EQ(run_cli({"plot", "maps", dir / "run", dir / "image.npy", "--out", dir / "maps.png"}).status, 0);
  // A picture of the model's size.
  EXPECT_EQ(names_in(dir.path().string()), (Words{"centers.svg", "image.npy", "maps.png", "maps.svg", "run"}));

  expect_refused(run_cli({"plot", "maps", dir / "run", "360", "--out", dir / "x.svg"}), {"0 to 359"});
  expect_refused(run_cli({"plot", "maps", dir / "run", "1", "--pixel", "8,0", "--out", dir / "x.svg"}), {"--pixel"});
  expect_refused(run_cli({"plot", "maps", dir / "run", dir / "maps.png", "--out", dir / "x.svg"}), {"expected 8 × 8"});
  save_f4(dir / "image.npy", {8, 8}, Numbers(64, 1.5));
  expect_refused(run_cli({"plot", "maps", dir / "run", dir / "image.npy", "--out", dir / "x.svg"}), {"0 to 1"});
  std::ofstream(dir / "broken.png") << "PNG?";
  expect_refused(run_cli({"plot", "maps", dir / "run", dir / "broken.png", "--out", dir / "x.svg"}),
                 {"expected a PNG file, got something else"});
  expect_refused(run_cli({"plot", "maps", dir / "nowhere", "1", "--out", dir / "x.svg"}), {"nowhere"});
  expect_refused(run_cli({"plot", "centers", dir / "nowhere", "--json"}), {"directory of a run"});
}

TEST(ImagesOnTheCommandLine, ComparisonOfAll) {
  const TemporaryDirectory dir;
  const Words command{"bench", "images", "digits", "--quick", "--epochs", "1", "--json", "--out", dir / "runs"};
  const CliResult first = run_cli(command);
  ASSERT_EQ(first.status, 0) << first.err;
  const Json rows = Json::parse(first.out)["rows"];
  ASSERT_EQ(rows.size(), 6U);
  Words names;
  for (const Json& row : rows) {
    names.push_back(row["model"]);
    EXPECT_EQ(row["task"], "digits");
    for (const char* number : {"parameters", "multiply_adds", "seconds_per_epoch"})
      EXPECT_GT(row[number].get<double>(), 0) << number;
    EXPECT_GE(row["accuracy"].get<double>(), 0);
  }
  EXPECT_EQ(names, (Words{"quadratic", "gaussian", "learned_2d", "learned_2d_positions", "absolute", "cnn"}));
  // Existing runs are not trained again.
  const CliResult again = run_cli(command);
  EXPECT_EQ(Json::parse(again.out)["rows"], rows);
  expect_refused(run_cli({"bench", "images", "letters"}), {"digits or shapes"});
  expect_refused(run_cli({"bench", "images", "--shape", "1,1,8,8"}), {"trained, not timed"});
  expect_refused(run_cli({"bench", "scaled_dot", "--seeds", "2"}), {"--seeds"});
}

}  // namespace
}  // namespace rapt::test
