#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include <nlohmann/json.hpp>

#include "tests/cli/attend_files.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;

// Practical 10, exercise 1.2.
TEST_F(CliAttend, GivesTheWorkedExample) {
  save_f8(file("q.npy"), {4, 2}, {-2.25, 4.5, 1.25, 2, -1.25, 4.75, -2.75, -3.5});
  save_f8(file("k.npy"), {4, 2}, {5.75, 1.5, 2, -.5, 4.5, 2, -2.5, .5});
  save_f8(file("v.npy"), {4, 2}, {-2.5, -7.5, .25, 0, -2, -5.25, -.75, -1.5});
  attend({"--weights"});
  expect_values(
      "out.npy",
      {-0.75220098, -1.50668721, -2.29564869, -6.58686077, -1.07141415, -2.47595506, -0.74812187, -1.49718290}, 5e-9);
  expect_values("weights.npy",
                {4.79433566e-05, 3.22098620e-05, 1.71943035e-03, 9.98200416e-01, 5.97319598e-01, 1.28333499e-03,
                 4.01298182e-01, 9.88847812e-05, 1.46423661e-02, 4.87223528e-04, 2.37021787e-01, 7.47848624e-01,
                 9.06143069e-09, 1.87817885e-03, 2.98824011e-08, 9.98121782e-01},
                5e-10);
  expect_file("out.npy", "<f8", {4, 2});
  expect_file("lse.npy", "<f8", {4});
  expect_file("weights.npy", "<f8", {4, 4});
  EXPECT_EQ(names_in(file("out")), (std::vector<std::string>{"lse.npy", "out.npy", "weights.npy"}));
}

TEST_F(CliAttend, ResultsHaveTheHighestRankOfTheInputs) {
  const auto save_zeros = [&](const std::string& name, const Sizes& shape) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    save_f4(file(name), shape, Numbers(count, 0.25));
  };
  save_zeros("q.npy", {3, 5, 4});
  save_zeros("k.npy", {3, 7, 4});
  save_zeros("v.npy", {3, 7, 2});
  attend({"--weights", "--stats"});
  expect_file("out.npy", "<f4", {3, 5, 2});
  expect_file("lse.npy", "<f4", {3, 5});
  expect_file("weights.npy", "<f4", {3, 5, 7});
  for (const char* name : {"entropy.npy", "position.npy", "covariance.npy"}) expect_file(name, "<f4", {3, 5});
  expect_file("argmax.npy", "<i8", {3, 5});

  // Queries are repeated for the batches and heads of the values.
  save_zeros("q.npy", {5, 4});
  save_zeros("k.npy", {7, 4});
  save_zeros("v.npy", {2, 3, 7, 2});
  save_zeros("go.npy", {2, 3, 5, 2});
  attend({"--grad", file("go.npy")});
  expect_file("out.npy", "<f4", {2, 3, 5, 2});
  expect_file("lse.npy", "<f4", {2, 3, 5});
  expect_file("dq.npy", "<f4", {5, 4});
  expect_file("dk.npy", "<f4", {7, 4});
  expect_file("dv.npy", "<f4", {2, 3, 7, 2});

  // Grouped heads.
  save_zeros("q.npy", {1, 6, 5, 4});
  save_zeros("k.npy", {1, 2, 7, 4});
  save_zeros("v.npy", {1, 2, 7, 2});
  attend();
  expect_file("out.npy", "<f4", {1, 6, 5, 2});
}

TEST_F(CliAttend, ComputesInTheWidestTypeOfTheInputs) {
  const Sizes shape{2, 2};
  const Numbers values{1, 0, 0, 1};
  save_f2_zeros(file("half.npy"), shape);
  save_f4(file("single.npy"), shape, values);
  save_f8(file("double.npy"), shape, values);
  save_i8(file("whole.npy"), shape, values);
  const auto run = [&](const char* q, const char* k, const char* v, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"attend", "--q",   file(q), "--k",       file(k),
                                   "--v",    file(v), "--out", file("out"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const CliResult done = run_cli(words);
    EXPECT_EQ(done.status, 0) << done.err;
    return load(result("out.npy")).descr + load(result("lse.npy")).descr +
           Json::parse(done.out)["dtype"].get<std::string>();
  };
  EXPECT_EQ(run("half.npy", "half.npy", "half.npy"), "<f2<f4f16");
  EXPECT_EQ(run("half.npy", "half.npy", "single.npy"), "<f4<f4f32");
  EXPECT_EQ(run("half.npy", "whole.npy", "half.npy"), "<f4<f4f32");
  EXPECT_EQ(run("whole.npy", "whole.npy", "whole.npy"), "<f4<f4f32");
  EXPECT_EQ(run("single.npy", "whole.npy", "double.npy"), "<f8<f8f64");
  EXPECT_EQ(run("double.npy", "double.npy", "double.npy", {"--dtype", "f16"}), "<f2<f4f16");
  EXPECT_EQ(run("half.npy", "half.npy", "half.npy", {"--dtype", "f64"}), "<f8<f8f64");
  EXPECT_EQ(run("double.npy", "double.npy", "double.npy", {"--dtype", "bf16"}), "<f4<f4bf16");
}

TEST_F(CliAttend, Bfloat16ResultsAreRounded) {
  Naive p = random_problem(1, 1, 9, 9, 8, 8);
  save_problem(p);
  attend({"--dtype", "bf16"});
  p.forward();
  expect_values("out.npy", p.out, 2e-2);
  for (const double value : load(result("out.npy")).values) {
    const float single = static_cast<float>(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &single, sizeof bits);
    EXPECT_EQ(bits & 0xffff, 0u) << value;
  }
}

TEST_F(CliAttend, AllPathsAndThreadCountsAgree) {
  Naive p = random_problem(2, 3, 33, 41, 8, 5);
  save_problem(p);
  p.forward();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {}, {"--reference"}, {"--path", "generic"}, {"--path", "auto"}, {"--threads", "1"}, {"--threads", "3"}}) {
    std::filesystem::remove_all(file("out"));
    attend(words);
    expect_values("out.npy", p.out, 1e-12);
    expect_values("lse.npy", p.lse, 1e-12);
  }
}

TEST_F(CliAttend, MasksHideWhatTheySay) {
  struct MaskCase {
    std::vector<std::string> words;
    std::function<bool(int b, int h, int i, int j)> visible;
  };
  const Naive p = random_problem(2, 2, 5, 7, 4, 3);
  save_problem(p);
  const Numbers dense = pseudo_random(35, 9);
  Numbers flags, row_flags{1, 0, 1, 1, 0, 1, 1}, head_flags;
  for (const double x : dense) flags.push_back(x > 0);
  for (int n = 0; n < 70; ++n) head_flags.push_back((n * 7 / 3) % 2);
  save_bool(file("mask.npy"), {5, 7}, flags);
  save_i8(file("mask_int.npy"), {5, 7}, flags);
  save_bool(file("mask_row.npy"), {7}, row_flags);
  save_bool(file("mask_head.npy"), {2, 5, 7}, head_flags);
  const auto by_flag = [&](int, int, int i, int j) { return flags[static_cast<std::size_t>(i * 7 + j)] > 0; };
  const std::vector<MaskCase> cases{
      {{"--causal", "top_left"}, [](int, int, int i, int j) { return j <= i; }},
      {{"--causal", "bottom_right"}, [](int, int, int i, int j) { return j <= i + 2; }},
      {{"--window", "1,2"}, [](int, int, int i, int j) { return j >= i - 1 && j <= i + 2; }},
      {{"--window", "-1,0"}, [](int, int, int i, int j) { return j <= i; }},
      {{"--window=0,-1"}, [](int, int, int i, int j) { return j >= i; }},
      {{"--key-lengths", "3,6"}, [](int b, int, int, int j) { return j < (b == 0 ? 3 : 6); }},
      {{"--key-lengths", "4"}, [](int, int, int, int j) { return j < 4; }},
      {{"--key-lengths", "0,7"}, [](int b, int, int, int) { return b == 1; }},
      {{"--mask", file("mask.npy")}, by_flag},
      {{"--mask", file("mask_int.npy")}, by_flag},
      {{"--mask", file("mask_row.npy")},
       [&](int, int, int, int j) { return row_flags[static_cast<std::size_t>(j)] > 0; }},
      {{"--mask", file("mask_head.npy")},
       [&](int, int h, int i, int j) { return head_flags[static_cast<std::size_t>((h * 5 + i) * 7 + j)] > 0; }},
      {{"--query-starts", "0,2,5", "--key-starts", "0,4,7"}, [](int, int, int i, int j) { return (i < 2) == (j < 4); }},
      {{"--causal", "top_left", "--key-lengths", "2"}, [](int, int, int i, int j) { return j <= i && j < 2; }},
  };
  for (const MaskCase& item : cases) {
    SCOPED_TRACE(testing::PrintToString(item.words));
    Naive expected = p;
    expected.change = [&](int b, int h, int i, int j, double s) {
      return item.visible(b, h, i, j) ? s : -std::numeric_limits<double>::infinity();
    };
    expected.forward();
    std::filesystem::remove_all(file("out"));
    std::vector<std::string> words = item.words;
    words.push_back("--weights");
    attend(words);
    expect_values("out.npy", expected.out);
    expect_values("lse.npy", expected.lse);
    expect_values("weights.npy", expected.weights);
  }
}

TEST_F(CliAttend, BiasSoftcapAndScale) {
  Naive p = random_problem(2, 3, 5, 7, 4, 3);
  save_problem(p);
  const Numbers bias = pseudo_random(105, 4);
  save_f8(file("bias.npy"), {3, 5, 7}, bias);
  p.change = [&](int, int h, int i, int j, double s) {
    const double scaled = s * 2 * 0.75;  // undo 1/√4, then the scale
    return 0.5 * std::tanh(scaled / 0.5) + bias[static_cast<std::size_t>((h * 5 + i) * 7 + j)];
  };
  p.forward();
  attend({"--bias", file("bias.npy"), "--softcap", "0.5", "--scale", "0.75"});
  expect_values("out.npy", p.out);
  expect_values("lse.npy", p.lse);
}

TEST_F(CliAttend, ArgmaxTakesTheBestKey) {
  Naive p = random_problem(1, 2, 5, 7, 4, 3);
  save_problem(p);
  p.forward();
  Numbers expected;
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < 5; ++i) {
      const auto row = p.weights.begin() + (h * 5 + i) * 7;
      const auto best = std::max_element(row, row + 7) - row;
      for (int d = 0; d < 3; ++d) expected.push_back(p.v[static_cast<std::size_t>((h * 7 + best) * 3 + d)]);
    }
  attend({"--normalize", "argmax"});
  expect_values("out.npy", expected);
}

// Two scores a row, so that every weight has a closed form.
TEST_F(CliAttend, NormalisersByName) {
  save_f8(file("q.npy"), {3, 1}, {1, 1, 2});
  save_f8(file("k.npy"), {2, 1}, {0.25, -0.25});
  save_f8(file("v.npy"), {2, 1}, {1, 0});
  const auto weights = [&](const char* name, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--normalize", name, "--weights"});
    attend(more);
    return load(result("weights.npy")).values;
  };
  const auto expect_rows = [&](const Numbers& got, double difference_half, double difference_one) {
    EXPECT_NEAR(got[0] - got[1], difference_half, 1e-12);
    EXPECT_NEAR(got[2] - got[3], difference_half, 1e-12);
    EXPECT_NEAR(got[4] - got[5], difference_one, 1e-12);
  };
  // Scores ±¼ and ±½: sparsemax keeps their difference, up to 1.
  expect_rows(weights("sparsemax"), 0.5, 1);
  expect_rows(weights("argmax"), 1, 1);
  expect_rows(weights("softmax"), std::tanh(0.25), std::tanh(0.5));
  // ((x + d/2)² + (x − d/2)² = 1 with weights (x ± d/2)², d half the difference of the scores.
  const auto entmax = [](double d) { return 2 * d * std::sqrt((1 - d * d / 2) / 2); };
  expect_rows(weights("entmax15"), entmax(0.25), entmax(0.5));
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double b = -std::log(2.0);
  expect_rows(weights("sigmoid"), sigmoid(0.25 + b) - sigmoid(-0.25 + b), sigmoid(0.5 + b) - sigmoid(-0.5 + b));
  expect_rows(weights("sigmoid", {"--param", "b=1"}), sigmoid(1.25) - sigmoid(0.75), sigmoid(1.5) - sigmoid(0.5));
  const Numbers sunk = weights("softmax", {"--param", "sink=2"});
  EXPECT_NEAR(sunk[0], std::exp(0.25) / (std::exp(0.25) + std::exp(-0.25) + std::exp(2)), 1e-12);
}

// A query at its position is the row of the whole pass, bit for bit.
TEST_F(CliAttend, QueriesStandAtTheirPositions) {
  const Naive p = random_problem(2, 2, 9, 9, 4, 3);
  save_problem(p);
  const std::vector<std::vector<std::string>> calls{{"--score", "alibi", "--param", "m=0.5,0.25"},
                                                    {"--score", "t5", "--param", "table=1,2,3,4,5,6,7,8"},
                                                    {"--rotary", "4"},
                                                    {"--rotary", "2,100", "--rotary-interleaved"}};
  for (std::vector<std::string> call : calls) {
    call.insert(call.end(), {"--causal", "top_left"});
    save_problem(p);
    attend(call);
    const Numbers whole = load(result("out.npy")).values;
    Numbers rows;
    for (int b = 0; b < 2; ++b)
      for (int h = 0; h < 2; ++h)
        for (int d = 0; d < 4; ++d) rows.push_back(p.q[p.at(b, h, b == 0 ? 6 : 2, 9, d, 4)]);
    save_f8(file("q.npy"), {2, 2, 1, 4}, rows);
    call.insert(call.end(), {"--first-query", "6,2"});
    attend(call);
    const Numbers step = load(result("out.npy")).values;
    for (int b = 0; b < 2; ++b)
      for (int h = 0; h < 2; ++h)
        for (int d = 0; d < 3; ++d)
          EXPECT_EQ(step[p.at(b, h, 0, 1, d, 3)], whole[p.at(b, h, b == 0 ? 6 : 2, 9, d, 3)]) << call[1];
  }
}

TEST_F(CliAttend, SizesOfZeroAreNoErrors) {
  save_f4(file("q.npy"), {2, 3, 4}, pseudo_random(24, 1));
  save_f4(file("k.npy"), {2, 0, 4}, {});
  save_f4(file("v.npy"), {2, 0, 5}, {});
  save_f4(file("go.npy"), {2, 3, 5}, pseudo_random(30, 1));
  attend({"--grad", file("go.npy")});
  EXPECT_EQ(load(result("out.npy")).values, Numbers(30, 0));
  expect_values("lse.npy", Numbers(6, -std::numeric_limits<double>::infinity()));
  EXPECT_EQ(load(result("dq.npy")).values, Numbers(24, 0));
  expect_file("dk.npy", "<f4", {2, 0, 4});
  save_f4(file("q.npy"), {2, 0, 4}, {});
  attend({"--weights", "--stats"});
  expect_file("out.npy", "<f4", {2, 0, 5});
}

TEST_F(CliAttend, JsonNamesWhatWasWritten) {
  save_problem(random_problem(1, 2, 4, 6, 4, 3));
  const Json summary =
      Json::parse(attend({"--json", "--stats", "--score", "cosine", "--param", "tau=3", "--threads", "2"}).out);
  EXPECT_EQ(summary["mechanism"], "cosine");
  EXPECT_EQ(summary["threads"], 2);
  EXPECT_EQ(summary["dtype"], "f64");
  EXPECT_GE(summary["seconds"].get<double>(), 0);
  EXPECT_FALSE(summary["isa"].get<std::string>().empty());
  std::vector<std::string> names;
  for (const Json& entry : summary["files"]) {
    names.push_back(entry["name"]);
    EXPECT_EQ(entry["shape"].get<Sizes>(), load(result(names.back())).shape);
    EXPECT_EQ(entry["dtype"], names.back() == "argmax.npy" ? "i64" : "f64");
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, names_in(file("out")));
}

TEST_F(CliAttend, MakesDirectoriesAndReplacesFiles) {
  save_problem(random_problem(1, 1, 4, 6, 4, 3));
  const std::string deep = file("a/b/c");
  std::filesystem::create_directories(file("a"));
  for (int round = 0; round < 2; ++round) {
    const CliResult done =
        run_cli({"attend", "--q", file("q.npy"), "--k", file("k.npy"), "--v", file("v.npy"), "--out", deep});
    ASSERT_EQ(done.status, 0) << done.err;
    EXPECT_NE(done.out.find("out.npy"), std::string::npos);
    EXPECT_EQ(names_in(deep), (std::vector<std::string>{"lse.npy", "out.npy"}));
    std::ofstream(deep + "/out.npy") << "old";
  }
}

}  // namespace
}  // namespace rapt::test
