#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/naive.h"
#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;

class CliAttend : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return directory_ / name; }
  std::string result(const std::string& name) const { return file("out/" + name); }

  void save_problem(const Naive& p) const {
    save_f8(file("q.npy"), {p.B, p.H, p.Sq, p.D}, p.q);
    save_f8(file("k.npy"), {p.B, p.H, p.Sk, p.D}, p.k);
    save_f8(file("v.npy"), {p.B, p.H, p.Sk, p.Dv}, p.v);
  }

  CliResult attend(std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"attend", "--q",         file("q.npy"), "--k",      file("k.npy"),
                                   "--v",    file("v.npy"), "--out",       file("out")};
    words.insert(words.end(), more.begin(), more.end());
    CliResult result = run_cli(words);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result;
  }

  void expect_values(const std::string& name, const Numbers& expected, double tolerance = 1e-12) const {
    const Loaded loaded = load(result(name));
    ASSERT_EQ(loaded.values.size(), expected.size()) << name;
    for (std::size_t n = 0; n < expected.size(); ++n) {
      if (std::isinf(expected[n])) EXPECT_EQ(loaded.values[n], expected[n]) << name << " " << n;
      else EXPECT_NEAR(loaded.values[n], expected[n], tolerance) << name << " " << n;
    }
  }

  void expect_file(const std::string& name, const std::string& descr, const Sizes& shape) const {
    const Loaded loaded = load(result(name));
    EXPECT_EQ(loaded.descr, descr) << name;
    EXPECT_EQ(loaded.shape, shape) << name;
  }

  TemporaryDirectory directory_;
};

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

TEST_F(CliAttend, GradientsOfNormalisers) {
  save_problem(random_problem(1, 2, 3, 5, 4, 2));
  save_f8(file("go.npy"), {1, 2, 3, 2}, pseudo_random(12, 9));
  const Numbers go = load(file("go.npy")).values;
  const auto loss = [&](const std::string& name, const std::string& parameter) {
    attend({"--normalize", name, "--param", parameter});
    const Numbers out = load(result("out.npy")).values;
    double sum = 0;
    for (std::size_t n = 0; n < out.size(); ++n) sum += out[n] * go[n];
    return sum;
  };
  for (const auto& [name, parameter] : {std::pair{"softmax", "sink"}, std::pair{"sigmoid", "b"}}) {
    const std::string p = parameter;
    const double step = 1e-5;
    const double slope = (loss(name, p + "=0.3,0.50001") - loss(name, p + "=0.3,0.49999")) / (2 * step);
    attend({"--normalize", name, "--param", p + "=0.3,0.5", "--grad", file("go.npy")});
    const Loaded gradient = load(result("d_" + p + ".npy"));
    EXPECT_EQ(gradient.shape, Sizes{2});
    EXPECT_NEAR(gradient.values[1], slope, 1e-8) << name;
  }
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

TEST_F(CliAttend, GradientsOfEverything) {
  Naive p = random_problem(2, 3, 5, 7, 4, 3);
  save_problem(p);
  const Numbers grad = pseudo_random(90, 5), grad_2 = pseudo_random(60, 6), bias = pseudo_random(7, 7);
  const Numbers v_2 = pseudo_random(84, 8);
  save_f8(file("go.npy"), {2, 3, 5, 3}, grad);
  save_f8(file("go_2.npy"), {2, 3, 5, 2}, grad_2);
  save_f8(file("v_2.npy"), {2, 3, 7, 2}, v_2);
  save_f8(file("bias.npy"), {1, 7}, bias);
  p.change = [&](int, int, int, int j, double s) { return s + bias[static_cast<std::size_t>(j)]; };
  p.forward();
  Naive second = p;
  second.v = v_2;
  second.Dv = 2;
  second.forward();
  Numbers by_score = p.score_gradient(grad);
  const Numbers by_score_2 = second.score_gradient(grad_2);
  for (std::size_t n = 0; n < by_score.size(); ++n) by_score[n] += by_score_2[n];

  Numbers dq(p.q.size()), dk(p.k.size()), dv(p.v.size()), dv_2(v_2.size()), dbias(7);
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 3; ++h)
      for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 7; ++j) {
          const std::size_t pair = p.at(b, h, i, 5, j, 7);
          dbias[static_cast<std::size_t>(j)] += by_score[pair];
          for (int d = 0; d < 4; ++d) {
            dq[p.at(b, h, i, 5, d, 4)] += by_score[pair] * p.k[p.at(b, h, j, 7, d, 4)] / 2;
            dk[p.at(b, h, j, 7, d, 4)] += by_score[pair] * p.q[p.at(b, h, i, 5, d, 4)] / 2;
          }
          for (int d = 0; d < 3; ++d) dv[p.at(b, h, j, 7, d, 3)] += p.weights[pair] * grad[p.at(b, h, i, 5, d, 3)];
          for (int d = 0; d < 2; ++d) dv_2[p.at(b, h, j, 7, d, 2)] += p.weights[pair] * grad_2[p.at(b, h, i, 5, d, 2)];
        }
  for (const char* path : {"auto", "generic"}) {
    std::filesystem::remove_all(file("out"));
    attend({"--v", file("v_2.npy"), "--grad", file("go.npy"), "--grad", file("go_2.npy"), "--bias", file("bias.npy"),
            "--path", path});
    expect_values("out.npy", p.out);
    expect_values("out_1.npy", second.out);
    expect_values("dq.npy", dq);
    expect_values("dk.npy", dk);
    expect_values("dv.npy", dv);
    expect_values("dv_1.npy", dv_2);
    expect_values("dbias.npy", dbias);
    expect_file("dq.npy", "<f8", {2, 3, 5, 4});
    expect_file("dv_1.npy", "<f8", {2, 3, 7, 2});
    expect_file("dbias.npy", "<f8", {1, 7});
  }
}

TEST_F(CliAttend, ParametersFromNumbersAndFiles) {
  Naive p = random_problem(1, 2, 5, 5, 4, 3);
  save_problem(p);
  const Numbers grad = pseudo_random(30, 5);
  save_f8(file("go.npy"), {1, 2, 5, 3}, grad);
  save_f8(file("m.npy"), {2}, {0.5, 0.25});
  p.change = [](int, int h, int i, int j, double s) { return s - (h == 0 ? 0.5 : 0.25) * std::abs(i - j); };
  p.forward();
  const Numbers by_score = p.score_gradient(grad);
  Numbers dm(2);
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < 5; ++i)
      for (int j = 0; j < 5; ++j) dm[static_cast<std::size_t>(h)] -= by_score[p.at(0, h, i, 5, j, 5)] * std::abs(i - j);
  for (const std::string& value : {std::string("0.5,0.25"), file("m.npy")}) {
    std::filesystem::remove_all(file("out"));
    attend({"--score", "alibi", "--param", "m=" + value, "--grad", file("go.npy")});
    expect_values("out.npy", p.out);
    expect_values("d_m.npy", dm);
    expect_file("d_m.npy", "<f8", {2});
  }
}

TEST_F(CliAttend, GradientsOfParametersHaveTheirShapes) {
  const std::int64_t H = 2, S = 6, D = 3;
  save_f4(file("q.npy"), {H, S, D}, pseudo_random(36, 1));
  save_f4(file("k.npy"), {H, S, D}, pseudo_random(36, 2));
  save_f4(file("v.npy"), {H, S, D}, pseudo_random(36, 3));
  save_f4(file("go.npy"), {H, S, D}, pseudo_random(36, 4));
  save_f8(file("W.npy"), {D, D}, pseudo_random(9, 5));
  save_f4(file("W_heads.npy"), {H, D, D}, pseudo_random(18, 5));
  save_f4(file("one.npy"), {1}, {1.5});
  save_f4(file("number.npy"), {}, {1.5});
  save_f4(file("r.npy"), {2 * S - 1, D}, pseudo_random(33, 6));
  struct Case {
    std::string score;
    std::vector<std::string> parameters;
    std::vector<std::pair<std::string, Sizes>> gradients;
  };
  const std::vector<Case> cases{
      {"bilinear", {"W=" + file("W.npy")}, {{"W", {D, D}}}},
      {"bilinear", {"W=" + file("W_heads.npy")}, {{"W", {H, D, D}}}},
      {"bilinear", {"W=1,0,0,0,1,0,0,0,1"}, {{"W", {D, D}}}},
      {"additive", {"w=1,2,3"}, {{"w", {D}}}},
      {"additive", {"w=1,2,3,4,5,6"}, {{"w", {H, D}}}},
      {"additive", {"w=1,2", "Wq=1,0,0,1,1,1", "Wk=1,0,0,1,1,1"}, {{"w", {2}}, {"Wq", {D, 2}}, {"Wk", {D, 2}}}},
      {"cosine", {"tau=2"}, {{"tau", {}}}},
      {"cosine", {"tau=2,3"}, {{"tau", {H}}}},
      {"cosine", {"tau=" + file("one.npy")}, {{"tau", {1}}}},
      {"cosine", {"tau=" + file("number.npy")}, {{"tau", {}}}},
      {"distance", {"gamma=0.5"}, {{"gamma", {}}}},
      {"t5", {"table=1,2,3,4,5,6,7,8", "max_distance=20"}, {{"table", {H, 4}}}},
      {"shaw", {"a=1,2,3,4,5,6,7,8,9"}, {{"a", {3, D}}}},
      {"transformer_xl",
       {"r=" + file("r.npy"), "u=1,2,3,4,5,6", "v=1,2,3,4,5,6"},
       {{"r", {2 * S - 1, D}}, {"u", {H, D}}, {"v", {H, D}}}},
      {"quadratic", {"grid=2,3", "alpha=1,2", "center=1,0,0,1"}, {{"alpha", {H}}, {"center", {H, 2}}}},
      {"gaussian", {"grid=2,3", "center=1,0,0,1", "gamma=1,0,0,1,2,0,0,2"}, {{"center", {H, 2}}, {"gamma", {H, 2, 2}}}},
      {"learned_2d",
       {"grid=2,3", "row=1,2,3,4,5,6,7,8,9", "col=1,2,3,4,5,6,7,8,9,1,2,3,4,5,6", "c=1"},
       {{"row", {3, D}}, {"col", {5, D}}}},
      {"learned_2d",
       {"grid=2,3", "row=1,2,3,4,5,6,7,8,9", "col=1,2,3,4,5,6,7,8,9,1,2,3,4,5,6", "content=0"},
       {{"row", {3, D}}, {"col", {5, D}}}},
  };
  for (const Case& item : cases) {
    SCOPED_TRACE(item.score + " " + testing::PrintToString(item.parameters));
    std::filesystem::remove_all(file("out"));
    std::vector<std::string> words{"--score", item.score, "--grad", file("go.npy")};
    for (const std::string& parameter : item.parameters) words.insert(words.end(), {"--param", parameter});
    attend(words);
    std::vector<std::string> names{"dk.npy", "dq.npy", "dv.npy", "lse.npy", "out.npy"};
    for (const auto& [name, shape] : item.gradients) {
      expect_file("d_" + name + ".npy", "<f4", shape);
      double size = 0;
      for (const double value : load(result("d_" + name + ".npy")).values) size += std::abs(value);
      EXPECT_GT(size, 0) << "the gradient of " << name << " is zero";
      names.push_back("d_" + name + ".npy");
    }
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names_in(file("out")), names);
  }
}

TEST_F(CliAttend, WeightsOfChosenHeadsAndRows) {
  Naive p = random_problem(2, 3, 5, 7, 4, 3);
  save_problem(p);
  p.forward();
  attend({"--weights-head", "1,2"});
  expect_file("weights.npy", "<f8", {1, 1, 5, 7});
  expect_values("weights.npy", Numbers(p.weights.begin() + 5 * 35, p.weights.end()));
  attend({"--weights", "--weights-rows", "2:4"});
  expect_file("weights.npy", "<f8", {2, 3, 2, 7});
  Numbers expected;
  for (int head = 0; head < 6; ++head)
    expected.insert(expected.end(), p.weights.begin() + head * 35 + 14, p.weights.begin() + head * 35 + 28);
  expect_values("weights.npy", expected);
}

TEST_F(CliAttend, StatisticsOfEveryRow) {
  Naive p = random_problem(1, 2, 4, 6, 4, 3);
  save_problem(p);
  p.forward();
  Numbers entropy, argmax, position, covariance, grid_position, grid_covariance, top, top_weights;
  for (int row = 0; row < 8; ++row) {
    const double* w = p.weights.data() + row * 6;
    double e = 0, x = 0, xx = 0, r = 0, c = 0, rr = 0, rc = 0, cc = 0;
    std::vector<int> order{0, 1, 2, 3, 4, 5};
    for (int j = 0; j < 6; ++j) {
      e -= w[j] * std::log(w[j]);
      x += w[j] * j, xx += w[j] * j * j;
      r += w[j] * (j / 3), c += w[j] * (j % 3);
      rr += w[j] * (j / 3) * (j / 3), rc += w[j] * (j / 3) * (j % 3), cc += w[j] * (j % 3) * (j % 3);
    }
    std::sort(order.begin(), order.end(), [&](int a, int b) { return w[a] > w[b]; });
    entropy.push_back(e);
    argmax.push_back(order[0]);
    position.push_back(x);
    covariance.push_back(xx - x * x);
    for (const double value : {r, c}) grid_position.push_back(value);
    for (const double value : {rr - r * r, rc - r * c, rc - r * c, cc - c * c}) grid_covariance.push_back(value);
    for (int n = 0; n < 2; ++n) {
      top.push_back(order[static_cast<std::size_t>(n)]);
      top_weights.push_back(w[order[static_cast<std::size_t>(n)]]);
    }
  }
  attend({"--stats", "--top-k", "2"});
  expect_values("entropy.npy", entropy, 1e-10);
  expect_values("argmax.npy", argmax, 0);
  expect_values("position.npy", position, 1e-10);
  expect_values("covariance.npy", covariance, 1e-10);
  expect_values("topk.npy", top, 0);
  expect_values("topk_weights.npy", top_weights, 1e-10);
  expect_file("argmax.npy", "<i8", {1, 2, 4});
  expect_file("position.npy", "<f8", {1, 2, 4});
  expect_file("covariance.npy", "<f8", {1, 2, 4});
  expect_file("topk.npy", "<i8", {1, 2, 4, 2});
  expect_file("topk_weights.npy", "<f8", {1, 2, 4, 2});

  attend({"--stats", "--grid", "2,3"});
  expect_values("position.npy", grid_position, 1e-10);
  expect_values("covariance.npy", grid_covariance, 1e-10);
  expect_file("position.npy", "<f8", {1, 2, 4, 2});
  expect_file("covariance.npy", "<f8", {1, 2, 4, 2, 2});
}

// Sharp attention at an offset looks one key farther.
TEST_F(CliAttend, StatisticsUseTheGridOfTheMechanism) {
  save_f4(file("q.npy"), {6, 1}, Numbers(6, 0));
  save_f4(file("k.npy"), {6, 1}, Numbers(6, 0));
  save_f4(file("v.npy"), {6, 1}, {0, 1, 2, 3, 4, 5});
  for (const std::vector<std::string>& grid : {std::vector<std::string>{"--param", "grid=2,3"}, {"--grid", "2,3"}}) {
    std::filesystem::remove_all(file("out"));
    std::vector<std::string> words{"--score", "quadratic", "--param", "alpha=60", "--param", "center=0,1", "--stats"};
    words.insert(words.end(), grid.begin(), grid.end());
    attend(words);
    expect_file("position.npy", "<f4", {6, 2});
    expect_file("covariance.npy", "<f4", {6, 2, 2});
    expect_values("position.npy", {0, 1, 0, 2, 0, 2, 1, 1, 1, 2, 1, 2}, 1e-4);
    expect_values("out.npy", {1, 2, 2, 4, 5, 5}, 1e-4);
  }
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
