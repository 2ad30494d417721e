#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

void write_text_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

nlohmann::json data_of(const std::string& page) {
  const std::string mark = "id=\"data\">";
  const std::size_t begin = page.find(mark) + mark.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& part) {
  const CliResult result = run_cli(arguments);
  EXPECT_EQ(result.status, 2) << part;
  EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

// Mean entropy and distance of softmax(q·k/√D − m·|i − j|) over keys j ≤ i, by the definition.
std::pair<double, double> causal_alibi(const double* q, const double* k, std::size_t length, std::size_t dim,
                                       double m) {
  double entropy = 0, distance = 0;
  for (std::size_t i = 0; i < length; ++i) {
    std::vector<double> e;
    double sum = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      double score = 0;
      for (std::size_t d = 0; d < dim; ++d) score += q[i * dim + d] * k[j * dim + d];
      e.push_back(std::exp(score / std::sqrt(static_cast<double>(dim)) - m * static_cast<double>(i - j)));
      sum += e.back();
    }
    for (std::size_t j = 0; j <= i; ++j) {
      entropy -= e[j] / sum * std::log(e[j] / sum);
      distance += e[j] / sum * static_cast<double>(i - j);
    }
  }
  return {entropy / static_cast<double>(length), distance / static_cast<double>(length)};
}

TEST(Explore, ScoresQueriesAndKeys) {
  const TemporaryDirectory dir;
  const Numbers q = pseudo_random(2 * 2 * 9 * 4, 1), k = pseudo_random(2 * 2 * 9 * 4, 2);
  save_f4(dir / "q.npy", {2, 2, 9, 4}, q);
  save_f4(dir / "k.npy", {2, 2, 9, 4}, k);
  write_text_file(dir / "mechanism.json", R"({"score": "alibi", "param": {"m": [0.5, 0.25]}, "causal": "top_left"})");
  write_text_file(dir / "tokens.txt", "a\nb\n</script>\n\nd\r\ne\nf\ng\nh");
  const CliResult result = run_cli({"explore", dir.path().string(), "--out", dir / "page.html"});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json data = data_of(read(dir / "page.html"));
  EXPECT_EQ(data["exhibit"]["layers"].size(), 2U);
  EXPECT_EQ(data["exhibit"]["layers"][0]["mechanism"], "alibi");
  EXPECT_EQ(data["exhibit"]["tokens"][0], nlohmann::json::array({"a", "b", "</script>", "", "d", "e", "f", "g", "h"}));
  for (std::size_t l = 0; l < 2; ++l)
    for (std::size_t h = 0; h < 2; ++h) {
      const std::size_t at = (l * 2 + h) * 36;
      const auto [entropy, distance] = causal_alibi(q.data() + at, k.data() + at, 9, 4, h == 0 ? 0.5 : 0.25);
      EXPECT_NEAR(data["summaries"][l][h]["entropy"].get<double>(), entropy, 1e-5);
      EXPECT_NEAR(data["summaries"][l][h]["distance"].get<double>(), distance, 1e-5);
    }
  // Options come before the file.
  ASSERT_EQ(
      run_cli({"explore", dir.path().string(), "--score", "dot", "--param", "x=1", "--out", dir / "b.html"}).status, 2);
  EXPECT_FALSE(std::filesystem::exists(dir / "b.html"));
}

TEST(Explore, TakesArraysWithoutLayersAndHeads) {
  const TemporaryDirectory dir;
  save_f8(dir / "weights.npy", {2, 3}, {0.5, 0.5, 0, 0, 0.25, 0.75});
  ASSERT_EQ(run_cli({"explore", dir.path().string(), "--out", dir / "page.html"}).status, 0);
  const nlohmann::json data = data_of(read(dir / "page.html"));
  EXPECT_EQ(data["exhibit"]["layers"][0]["heads"], 1);
  EXPECT_EQ(data["exhibit"]["layers"][0]["queries"], 2);
  EXPECT_EQ(data["exhibit"]["tokens"][1], nlohmann::json::array({"0", "1", "2"}));
  EXPECT_NEAR(data["summaries"][0][0]["largest"].get<double>(), 0.625, 1e-6);
}

TEST(Explore, RefusesBadInput) {
  const TemporaryDirectory dir;
  const std::string folder = dir / "arrays", page = dir / "page.html";
  std::filesystem::create_directory(folder);
  expect_refused({"explore", dir / "none"}, "expected the directory of a run or of arrays");
  expect_refused({"explore", folder}, "expected a run (config.json) or arrays");
  save_f4(folder + "/weights.npy", {3}, {1, 0, 0});
  expect_refused({"explore", folder, "--out", page}, "got shape [3]");
  save_f4(folder + "/weights.npy", {1, 2}, {-0.5, 1.5});
  expect_refused({"explore", folder, "--out", page}, "expected weights from 0 to 1");
  save_f4(folder + "/weights.npy", {1, 2}, {NAN, 1});
  expect_refused({"explore", folder, "--out", page}, "expected weights from 0 to 1");
  save_f4(folder + "/weights.npy", {2, 2}, {1, 0, 0, 1});
  write_text_file(folder + "/tokens.txt", "one\n");
  expect_refused({"explore", folder, "--out", page}, "expected 2 lines, got 1");
  std::filesystem::remove(folder + "/tokens.txt");
  expect_refused({"explore", folder, "--grid", "1,3", "--out", page}, "--grid");
  expect_refused({"explore", folder, "--grid", "4000000000,4000000000", "--out", page}, "--grid");
  expect_refused({"explore", folder, "--text", "a", "--out", page}, "got a directory of arrays");
  expect_refused({"explore", folder, "--serve", "--out", page}, "expected --serve or --out, got both");
  expect_refused({"explore", folder, "--port", "80"}, "--port: expected --serve beside it");
  expect_refused({"explore", folder, "--serve", "--port", "70000"}, "0 to 65535");
  expect_refused({"explore", folder, "--out", dir / "no/such/place.html"}, "place.html");
  for (const char* broken : {"{", "[]", "{\"scroe\": \"dot\"}", "{\"param\": 3}", "{\"scale\": [true]}"}) {
    write_text_file(folder + "/mechanism.json", broken);
    expect_refused({"explore", folder, "--out", page}, "mechanism.json");
  }
  EXPECT_FALSE(std::filesystem::exists(page));
}

}  // namespace
}  // namespace rapt::test
