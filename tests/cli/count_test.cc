#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

CliResult count(const Words& more) {
  Words words{"count"};
  words.insert(words.end(), more.begin(), more.end());
  return run_cli(words);
}

Json counted(Words more) {
  more.push_back("--json");
  const CliResult result = count(more);
  EXPECT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out, nullptr, false);
  return json.is_object() ? json : Json{{"layers", {Json::object()}}};
}

std::int64_t stage(const Json& list, const std::string& name) {
  for (const Json& entry : list["stages"])
    if (entry["name"] == name) return entry["value"];
  ADD_FAILURE() << "no stage " << name;
  return -1;
}

void expect_refused(const CliResult& result, const Words& parts, const std::string& what) {
  EXPECT_EQ(result.status, 2) << what;
  EXPECT_EQ(result.out, "") << what;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << what << result.err;
  for (const std::string& part : parts)
    EXPECT_NE(result.err.find(part), std::string::npos) << what << "\n" << result.err;
}

const Words kSmall{"--heads", "2",      "--din", "3",        "--dhid", "5",       "--do",
                   "7",       "--dout", "11",    "--tokens", "13",     "--batch", "17"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Assignment 6 (self-attention and convolution), a.1, by hand: 2·3·(2·5 + 7) + 2·7·11 + 11.
TEST(Count, ParametersOfMultiHeadAttention) {
  const Json layer = counted(kSmall)["layers"][0];
  EXPECT_EQ(layer["parameters"]["value"], 102 + 154 + 11);
  EXPECT_EQ(layer["parameters"]["formula"], "N_h·D_in·(2·D_hid + D_o) + N_h·D_o·D_out + D_out");
  EXPECT_EQ(layer["parameters"]["numbers"], "2·3·(2·5 + 7) + 2·7·11 + 11");
  const std::string out = count(kSmall).out;
  EXPECT_NE(out.find("parameters = N_h·D_in·(2·D_hid + D_o) + N_h·D_o·D_out + D_out\n"), std::string::npos);
  EXPECT_NE(out.find("= 2·3·(2·5 + 7) + 2·7·11 + 11\n"), std::string::npos);
  EXPECT_NE(out.find("= 267\n"), std::string::npos);
}

TEST(Count, MultiplyAddsOfAbsolutePositions) {
  const Json layer = counted(kSmall)["layers"][0];
  const Json& work = layer["multiply_adds"];
  EXPECT_EQ(stage(work, "projections: q, k, v"), 17 * 13 * 2 * 3 * 17);
  EXPECT_EQ(stage(work, "scores"), 17 * 2 * 13 * 13 * 5);
  EXPECT_EQ(stage(work, "weighted sum"), 17 * 2 * 13 * 13 * 7);
  EXPECT_EQ(stage(work, "output projection"), 17 * 13 * 2 * 7 * 11);
  EXPECT_EQ(work["total"], 17 * 13 * 2 * 3 * 17 + 17 * 2 * 169 * 5 + 17 * 2 * 169 * 7 + 17 * 13 * 2 * 7 * 11);
  EXPECT_EQ(layer["exponentials"]["value"], 17 * 2 * 169);
  // b.2: each of four terms takes two vector-matrix products and one inner product for every pair.
  EXPECT_EQ(layer["scores_as_written"]["value"], 17 * 2 * 169 * 4 * (2 * 3 * 5 + 5));
  EXPECT_EQ(layer["scores_projected_once"]["value"], 2 * 17 * 2 * 13 * 3 * 5 + 17 * 2 * 169 * 5);
}

TEST(Count, RelativePositions) {
  const Json layer = counted(with(kSmall, {"--encoding", "relative", "--dp", "4"}))["layers"][0];
  EXPECT_EQ(layer["parameters"]["value"], 267 + 2 * (4 * 5 + 2 * 5));
  const Json& work = layer["multiply_adds"];
  EXPECT_EQ(stage(work, "projections: positions"), 2 * 25 * 4 * 5);
  EXPECT_EQ(stage(work, "scores: q·k and q·r"), 2 * 17 * 2 * 169 * 5);
  EXPECT_EQ(stage(work, "scores: u·k"), 17 * 2 * 13 * 5);
  EXPECT_EQ(stage(work, "scores: v·r"), 2 * 25 * 5);
}

TEST(Count, QuadraticPositionsHaveNoQueriesAndKeys) {
  const Json layer = counted(
      {"--heads", "9", "--din", "400", "--do", "400", "--grid", "16,16", "--encoding", "quadratic"})["layers"][0];
  EXPECT_EQ(layer["parameters"]["value"], 9 * 400 * 400 + 9 * 400 * 400 + 400 + 27);
  EXPECT_EQ(stage(layer["multiply_adds"], "projections: v"), 256LL * 9 * 400 * 400);
  EXPECT_EQ(stage(layer["multiply_adds"], "scores"), 3LL * 9 * 65536);
  EXPECT_EQ(stage(layer["multiply_adds"], "weighted sum"), 9LL * 65536 * 400);
  EXPECT_FALSE(layer.contains("scores_as_written"));
}

TEST(Count, FactorisedPathGrowsWithRowsPlusColumns) {
  const Json layer = counted({"--heads", "2", "--din", "6", "--do", "5", "--grid", "3,4", "--batch", "7", "--encoding",
                              "factorised"})["layers"][0];
  EXPECT_EQ(layer["tokens"], 12);
  EXPECT_EQ(stage(layer["multiply_adds"], "weighted sum"), 7 * 2 * 12 * (3 + 4) * 5);
  EXPECT_EQ(stage(layer["multiply_adds"], "scores"), 2 * 2 * (9 + 16));
  EXPECT_EQ(layer["exponentials"]["value"], 2 * (9 + 16));
}

TEST(Count, OrderOfGrowth) {
  const std::string out = count({"--heads", "1", "--din", "10", "--dhid", "10", "--grid", "2,3"}).out;
  for (const char* line : {"O(N²D_x² + N²D_x + ND_x²)", "O(N²D_x + ND_x²)", "O(N(rows + cols)D_x + ND_x²)",
                           "as written term by term", "projections computed once", "6²·10² + 6²·10 + 6·10² = 4560",
                           "6²·10 + 6·10² = 960", "6·(2 + 3)·10 + 6·10² = 900"})
    EXPECT_NE(out.find(line), std::string::npos) << line;
  EXPECT_EQ(count(kSmall).out.find("rows"), std::string::npos);  // a sequence has none
}

TEST(Count, Bytes) {
  for (const auto& [dtype, size] :
       std::vector<std::pair<std::string, int>>{{"f32", 4}, {"f64", 8}, {"bf16", 2}, {"f16", 2}}) {
    const Json layer = counted(with(kSmall, {"--dtype", dtype}))["layers"][0];
    EXPECT_EQ(stage(layer["naive_bytes"], "score matrix"), 17 * 2 * 169 * size);
    EXPECT_EQ(stage(layer["fused_bytes"], "log-sum of each row"), 17 * 2 * 13 * std::max(size, 4));
    const int common = (267 + 17 * 13 * 3 + 17 * 2 * 13 * 17 + 17 * 2 * 13 * 7 + 17 * 13 * 11) * size;
    EXPECT_EQ(layer["naive_bytes"]["total"], common + 17 * 2 * 169 * size);
    EXPECT_EQ(layer["fused_bytes"]["total"], common + 17 * 2 * 13 * std::max(size, 4));
  }
}

TEST(Count, WhatIsLeftOutIsFilledIn) {
  const Json layer = counted({"--din", "8", "--dhid", "4", "--tokens", "2"})["layers"][0];
  EXPECT_EQ(layer["heads"], 1);
  EXPECT_EQ(layer["do"], 4);
  EXPECT_EQ(layer["dout"], 8);
  EXPECT_EQ(layer["batch"], 1);
}

class CountFile : public testing::Test {
 protected:
  CliResult run(const Json& json, const Words& more = {}) {
    std::ofstream(directory_ / "model.json") << json.dump();
    return count(with({directory_ / "model.json"}, more));
  }
  TemporaryDirectory directory_;
};

TEST_F(CountFile, IsTheSameAsTheOptions) {
  const Json layer{{"heads", 2}, {"din", 3}, {"dhid", 5}, {"do", 7}, {"dout", 11}, {"tokens", 13}, {"batch", 17}};
  EXPECT_EQ(run(layer, {"--json"}).out, count(with(kSmall, {"--json"})).out);
  EXPECT_EQ(run(layer).out, count(kSmall).out);
  EXPECT_EQ(run(Json::array({layer})).out, count(kSmall).out);
}

TEST_F(CountFile, TotalsOfAModel) {
  const Json model{{"title", "two kinds"},
                   {"din", 3},
                   {"tokens", 4},
                   {"layers", {{{"dhid", 2}, {"repeat", 3}}, {{"dhid", 5}, {"heads", 2}, {"name", "last"}}}}};
  const Json total = Json::parse(run(model, {"--json"}).out)["total"];
  EXPECT_EQ(total["layers"], 4);
  EXPECT_EQ(total["parameters"], 3 * (3 * 6 + 2 * 3 + 3) + (2 * 3 * 15 + 2 * 5 * 3 + 3));
  const std::string out = run(model).out;
  EXPECT_NE(out.find("two kinds"), std::string::npos);
  EXPECT_NE(out.find("layer 0, 3 times"), std::string::npos);
  EXPECT_NE(out.find("last: absolute"), std::string::npos);
  EXPECT_NE(out.find("total of 4 layers"), std::string::npos);
}

TEST_F(CountFile, ExampleModel) {
  const Json json = counted({std::string(RAPT_SOURCE_DIR) + "/examples/count/six_layers.json"});
  const std::int64_t relative = 9LL * 400 * 1200 + 9LL * 400 * 400 + 400 + 9LL * (400 * 400 + 800);
  const std::int64_t factorised = 2 * 9LL * 400 * 400 + 400 + 27;
  EXPECT_EQ(json["total"]["parameters"], relative + 5 * factorised);
}

TEST_F(CountFile, BadFilesAreRefused) {
  expect_refused(run({{"din", 3}}), {"model.json", "tokens"}, "no tokens");
  expect_refused(run({{"tokens", 3}}), {"model.json", "din"}, "no din");
  expect_refused(run({{"din", 3}, {"tokens", 3}}), {"model.json", "dhid"}, "no dhid");
  expect_refused(run({{"din", 0}, {"dhid", 1}, {"tokens", 3}}), {"din", "from 1"}, "zero");
  expect_refused(run({{"din", 2.5}, {"dhid", 1}, {"tokens", 3}}), {"din", "2.5"}, "half");
  expect_refused(run({{"din", 3}, {"dhid", 1}, {"tokens", 3}, {"hedas", 2}}), {"hedas"}, "misspelt");
  expect_refused(run({{"din", 3}, {"dhid", 1}, {"tokens", 5}, {"grid", {2, 2}}}), {"tokens", "grid"}, "grid");
  expect_refused(run({{"din", 3}, {"dhid", 1}, {"grid", {2}}}), {"grid"}, "grid of one");
  expect_refused(run({{"din", 3}, {"dhid", 1}, {"tokens", 5}, {"encoding", "rotary"}}),
                 {"encoding", "rotary", "absolute"}, "encoding");
  expect_refused(run({{"din", 3}, {"dhid", 1}, {"tokens", 5}, {"encoding", "factorised"}}), {"grid"}, "factorised");
  expect_refused(run({{"din", 3}, {"dhid", 1}, {"tokens", 5}, {"dtype", "int8"}}), {"dtype", "int8"}, "dtype");
  expect_refused(run({{"layers", Json::array()}}), {"layers"}, "no layers");
  expect_refused(run({{"layers", {1}}}), {"layers[0]"}, "not a layer");
  expect_refused(run({{"layers", {{{"din", 1}, {"tokens", 1}}}}}), {"layers[0]", "dhid"}, "second level");
  expect_refused(run(Json::array({{{"din", "3"}}})), {"[0].din"}, "text");
  expect_refused(run(3), {"model.json"}, "a number");
}

TEST(Count, TooLargeIsRefused) {
  const std::string huge = "9223372036854775807";
  expect_refused(count({"--din", huge, "--dhid", "2", "--tokens", "1"}), {"64 bits"}, "product");
  expect_refused(count({"--din", "3037000500", "--dhid", "3037000500", "--tokens", "1"}), {"64 bits"},
                 "just above 2^63");
  expect_refused(count({"--din", "9223372036854775808", "--dhid", "2", "--tokens", "1"}), {"--din"},
                 "no 64-bit number");
  expect_refused(count({"--din", "1", "--dhid", "1", "--grid", huge + ",2"}), {"64 bits"}, "grid");
  // Beyond the 53 bits of a double every number is still exact.
  const Json layer = counted({"--din", "1", "--dhid", "1", "--tokens", "700000001"})["layers"][0];
  EXPECT_EQ(stage(layer["multiply_adds"], "scores"), 490000001400000001LL);
  expect_refused(count({"--din", "1", "--dhid", "1", "--tokens", "3037000500"}), {"64 bits"}, "tokens squared");
}

TEST_F(CountFile, TooManyRepeatsAreRefused) {
  expect_refused(run({{"din", 1}, {"dhid", 1}, {"tokens", 1000000}, {"repeat", 1000000000000LL}}), {"64 bits"},
                 "repeat");
}

TEST(Count, BadOptionsAreRefused) {
  expect_refused(count({}), {"tokens"}, "nothing");
  expect_refused(count({"--din", "0", "--dhid", "1", "--tokens", "1"}),
                 {"--din", "expected an integer of 1 or more, got '0'"}, "zero");
  expect_refused(count({"--din", "-4", "--dhid", "1", "--tokens", "1"}), {"--din"}, "negative");
  expect_refused(count({"--din", "4x", "--dhid", "1", "--tokens", "1"}), {"--din", "4x"}, "no number");
  expect_refused(count({"--din", "4", "--dhid", "1", "--grid", "4"}), {"--grid"}, "grid of one");
  expect_refused(count({"--din", "4", "--dhid", "1", "--tokens", "1", "--encoding", "x"}), {"--encoding", "factorised"},
                 "encoding");
  expect_refused(count({"--din", "4", "--dhid", "1", "--tokens", "1", "--dtype", "f8"}), {"--dtype", "f8"}, "dtype");
  expect_refused(count({"nowhere.json"}), {"nowhere.json"}, "missing file");
  expect_refused(count({"nowhere.json", "--din", "4"}), {"expected a file or the sizes of a layer, got both"},
                 "file and sizes");
}

}  // namespace
}  // namespace rapt::test
