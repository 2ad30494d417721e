// Verbs on scenes: train, evaluate, plot scenes, bench multitask, bench shared.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/live_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Words small_scenes(const std::string& out, const Words& more = {}) {
  Words all{"train",       "scenes", "--size",   "16", "--train-size", "24", "--valid-size", "6",
            "--test-size", "8",      "--epochs", "2",  "--batch",      "8",  "--width",      "8",
            "--inner",     "16",     "--stages", "2",  "--out",        out};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Scenes, LeavesARunThatIsEvaluatedAndShown) {
  const TemporaryDirectory dir;
  const CliResult trained = run_cli(small_scenes(dir / "run", {"--json"}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Json result = Json::parse(trained.out);
  const Words names{"segmentation_miou", "depth_rmse", "normals_angle", "edges_f1", "reshading_l1"};
  for (const std::string& name : names) EXPECT_GT(result[name].get<double>(), 0) << name;
  std::istringstream metrics(text_of(dir / "run/metrics.jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(metrics, line));
  for (const std::string& name : names) EXPECT_TRUE(Json::parse(line).contains("valid_" + name)) << name;

  const CliResult evaluated = run_cli({"evaluate", dir / "run", "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  const Json scores = Json::parse(evaluated.out);
  for (const std::string& name : names) EXPECT_EQ(scores[name], result[name]);

  const CliResult plotted = run_cli({"plot", "scenes", dir / "run", "0", "7", "--out", dir / "scenes.svg"});
  ASSERT_EQ(plotted.status, 0) << plotted.err;
  const std::string svg = text_of(dir / "scenes.svg");
  for (const char* word : {"scene 0", "scene 7", "predicted", "depth", "cylinder"})
    EXPECT_NE(svg.find(word), std::string::npos) << word;
  // Two pictures, and truth and prediction of five tasks for each.
  std::size_t tiles = 0;
  for (std::size_t at = svg.find("class=\"tile\""); at != std::string::npos; at = svg.find("class=\"tile\"", at + 1))
    ++tiles;
  EXPECT_EQ(tiles, 2U * (1 + 5 + 5));

  const CliResult explored = run_cli({"explore", dir / "run", "--image", "7", "--out", dir / "page.html"});
  ASSERT_EQ(explored.status, 0) << explored.err;
  EXPECT_NE(text_of(dir / "page.html").find("\"decoder.0.shared\""), std::string::npos);
  expect_refused(run_cli({"explore", dir / "run", "--image", "8", "--out", dir / "no.html"}), {"--image", "0 to 7"});
  expect_refused(run_cli({"explore", dir / "run", "--text", "a", "--out", dir / "no.html"}), {"--image N"});
  expect_refused(run_cli({"plot", "scenes", dir / "run", "8", "--out", dir / "no.svg"}), {"got 8", "0 to 7"});
  EXPECT_FALSE(std::filesystem::exists(dir / "no.svg"));
}

TEST(Scenes, SameWeightsOnAnyNumberOfThreadsAndAfterResuming) {
  const TemporaryDirectory dir;
  ASSERT_EQ(run_cli(small_scenes(dir / "one", {"--threads", "1"})).status, 0);
  ASSERT_EQ(run_cli(small_scenes(dir / "three", {"--threads", "3"})).status, 0);
  EXPECT_EQ(text_of(dir / "one/model.safetensors"), text_of(dir / "three/model.safetensors"));
  Words longer = small_scenes(dir / "longer");
  *(std::find(longer.begin(), longer.end(), "--epochs") + 1) = "3";
  // A constant rate: the length of a run does not change its first steps.
  longer.insert(longer.end(), {"--schedule", "constant"});
  ASSERT_EQ(run_cli(longer).status, 0);
  ASSERT_EQ(run_cli(small_scenes(dir / "resumed", {"--schedule", "constant"})).status, 0);
  ASSERT_EQ(run_cli({"train", "--resume", "--epochs", "3", "--out", dir / "resumed"}).status, 0);
  EXPECT_EQ(text_of(dir / "resumed/model.safetensors"), text_of(dir / "longer/model.safetensors"));
}

TEST(Scenes, SettingsAreKept) {
  const TemporaryDirectory dir;
  ASSERT_EQ(run_cli(small_scenes(dir / "run", {"--tasks", "depth,edges", "--sharing", "none"})).status, 0);
  const Json config = Json::parse(text_of(dir / "run/config.json"));
  EXPECT_EQ(config["model"]["tasks"], "depth,edges");
  EXPECT_EQ(config["model"]["sharing"], "none");
  EXPECT_EQ(config["data"]["size"], 16);
  const Json scores = Json::parse(run_cli({"evaluate", dir / "run", "--json"}).out);
  EXPECT_TRUE(scores.contains("edges_f1"));
  EXPECT_FALSE(scores.contains("segmentation_miou"));
}

TEST(Scenes, RefusesBadInput) {
  const TemporaryDirectory dir;
  const auto refused = [&](const Words& more, const Words& parts) {
    expect_refused(run_cli(small_scenes(dir / "no", more)), parts);
    EXPECT_FALSE(std::filesystem::exists(dir / "no/config.json"));
  };
  refused({"--tasks", "depth,colour"}, {"colour", "segmentation"});
  refused({"--tasks", "depth,depth"}, {"depth", "twice"});
  refused({"--sharing", "some"}, {"--sharing", "expected none or shared"});
  refused({"--reference", "nothing"}, {"reference", "nothing", "skip"});
  refused({"--tasks", "depth", "--reference", "edges"}, {"reference", "edges"});
  refused({"--patch", "5"}, {"16 pixels", "multiple of 10"});
  refused({"--heads", "3"}, {"heads", "divide"});
  refused({"--hidden", "9"}, {"train: --hidden: expected an option for models on task scenes, got another"});
  expect_refused(run_cli({"plot", "scenes", dir / "nothing", "0", "--out", dir / "a.svg"}), {"nothing"});
}

TEST(Scenes, ComparesNetworksOverSeeds) {
  const TemporaryDirectory dir;
  std::ofstream(dir / "tiny.json") << R"({"data": {"size": 16, "train_size": 16, "valid_size": 4, "test_size": 6},
    "model": {"tasks": "depth,edges", "width": 8, "inner": 8, "stages": 1}, "training": {"epochs": 2, "batch": 8}})";
  const Words command{"bench",       "multitask",  "--config", dir / "tiny.json", "--seeds", "2",         "--seed", "5",
                      "--reference", "skip,depth", "--out",    dir / "runs",      "--json",  "--threads", "2"};
  const CliResult done = run_cli(command);
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.err, "");
  const Json all = Json::parse(done.out);
  EXPECT_EQ(all["seeds"], 2);
  ASSERT_EQ(all["rows"].size(), 4U);
  EXPECT_EQ(names_in(dir / "runs"),
            (Words{"none_5", "none_6", "shared_depth_5", "shared_depth_6", "shared_skip_5", "shared_skip_6",
                   "single_depth_5", "single_depth_6", "single_edges_5", "single_edges_6"}));
  for (const Json& row : all["rows"]) {
    EXPECT_EQ(row["scores"]["depth_rmse"]["values"].size(), 2U);
    const auto values = row["scores"]["edges_f1"]["values"].get<std::vector<double>>();
    EXPECT_NEAR(row["scores"]["edges_f1"]["mean"].get<double>(), (values[0] + values[1]) / 2, 1e-12);
    EXPECT_NEAR(row["scores"]["edges_f1"]["deviation"].get<double>(), std::abs(values[0] - values[1]) / std::sqrt(2.0),
                1e-12);
  }
  // Two encoders for two tasks; one map instead of two.
  EXPECT_GT(all["rows"][0]["parameters"], all["rows"][1]["parameters"]);
  EXPECT_GT(all["rows"][1]["parameters"], all["rows"][2]["parameters"]);
  // The scores are those of the runs that it keeps.
  const Json one = Json::parse(run_cli({"evaluate", dir / "runs/shared_skip_6", "--json"}).out);
  EXPECT_EQ(all["rows"][2]["scores"]["depth_rmse"]["values"][1], one["depth_rmse"]);

  // What is done is kept; other settings are refused.
  const CliResult again = run_cli(command);
  ASSERT_EQ(again.status, 0) << again.err;
  Json repeated = Json::parse(again.out);
  EXPECT_EQ(repeated["rows"][1]["scores"], all["rows"][1]["scores"]);
  std::ofstream(dir / "tiny.json") << R"({"data": {"size": 16}, "model": {"width": 8}})";
  expect_refused(run_cli(command), {"bench multitask: setting train_size: expected 16 as in", "got 1500"});
}

TEST(Scenes, BenchRefusesBadInput) {
  expect_refused(run_cli({"bench", "multitask", "--seeds", "0"}), {"--seeds", "1 to"});
  expect_refused(run_cli({"bench", "multitask", "--reference", "x"}), {"reference", "'x'"});
  expect_refused(run_cli({"bench", "multitask", "depth"}), {"no further names"});
  expect_refused(run_cli({"bench", "multitask", "--shape", "1,1,8,8"}), {"--shape"});
  expect_refused(run_cli({"bench", "scaled_dot", "--seeds", "2"}), {"--seeds", "multitask"});
  expect_refused(run_cli({"bench", "shared", "x"}), {"no further names"});
}

// Only what is printed; speed is not tested.
TEST(Scenes, BenchSharedMeasuresTasksInTurn) {
  const CliResult done = run_cli({"bench", "shared", "--quick", "--json"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Json rows = Json::parse(done.out)["rows"];
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0]["tasks"], 1);
  EXPECT_EQ(rows[0]["ratio"], 1.0);
  EXPECT_EQ(rows[1]["tasks"], 2);
  EXPECT_EQ(rows[1]["limit"], 1.6);
  EXPECT_NEAR(rows[1]["ratio"].get<double>() * rows[1]["separate_ratio"].get<double>(), 2, 1e-9);
  EXPECT_EQ(rows[3]["direction"], "backward");
}

}  // namespace
}  // namespace rapt::test
