#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Rows = std::vector<std::vector<double>>;

std::string example(const std::string& name) { return std::string(RAPT_SOURCE_DIR) + "/examples/" + name + ".json"; }

// The numbers of --json: {"values": {id: rows}}.
Json solved(const std::string& file, int status = 0) {
  const CliResult result = run_cli({"solve", file, "--json"});
  EXPECT_EQ(result.status, status) << result.err;
  return Json::parse(result.out, nullptr, false);
}

class Solve : public testing::Test {
 protected:
  std::string write(const Json& problem) {
    const std::string file = directory_ / "problem.json";
    std::ofstream(file) << problem.dump();
    return file;
  }
  Json values(const Json& problem) {
    const Json result = solved(write(problem));
    return result.is_object() ? result["values"] : Json();
  }
  TemporaryDirectory directory_;
};

void expect_near(const Json& actual, const Rows& expected, double tolerance, const std::string& what) {
  ASSERT_TRUE(actual.is_array()) << what;
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(actual[i].size(), expected[i].size()) << what;
    for (std::size_t j = 0; j < expected[i].size(); ++j)
      EXPECT_NEAR(actual[i][j].get<double>(), expected[i][j], tolerance) << what << " " << i << "," << j;
  }
}

// Nine significant digits of each number, however small.
void expect_digits(const Json& actual, const Rows& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i)
    for (std::size_t j = 0; j < expected[i].size(); ++j)
      EXPECT_NEAR(actual[i][j].get<double>() / expected[i][j], 1, 5.1e-9) << what << " " << i << "," << j;
}

constexpr double kPrinted = 5.01e-9;  // half of the eighth decimal

// ---- WORKED.md, written here again: the examples' own "expect" is not trusted.

TEST_F(Solve, OneQuery) {
  const Json v = solved(example("001_1_1_one_query"))["values"];
  expect_near(v["scores"], {{2.59807621, 0, 2.59807621, 0}}, kPrinted, "z");
  expect_near(v["weights"], {{0.46536883, 0.03463117, 0.46536883, 0.03463117}}, kPrinted, "a");
  expect_near(v["Z"], {{-1.66342208, 0.8961065, 0.03463117}}, kPrinted, "c");
}

TEST_F(Solve, OneHead) {
  const Json v = solved(example("001_1_2_one_head"))["values"];
  expect_near(v["Q"], {{-2.25, 4.5}, {1.25, 2}, {-1.25, 4.75}, {-2.75, -3.5}}, 0, "Q");
  expect_near(v["K"], {{5.75, 1.5}, {2, -.5}, {4.5, 2}, {-2.5, .5}}, 0, "K");
  expect_near(v["V"], {{-2.5, -7.5}, {.25, 0}, {-2, -5.25}, {-.75, -1.5}}, 0, "V");
  expect_digits(v["weights"],
                {{4.79433566e-05, 3.22098620e-05, 1.71943035e-03, 9.98200416e-01},
                 {5.97319598e-01, 1.28333499e-03, 4.01298182e-01, 9.88847812e-05},
                 {1.46423661e-02, 4.87223528e-04, 2.37021787e-01, 7.47848624e-01},
                 {9.06143069e-09, 1.87817885e-03, 2.98824011e-08, 9.98121782e-01}},
                "P");
  expect_near(
      v["Z"],
      {{-0.75220098, -1.50668721}, {-2.29564869, -6.58686077}, {-1.07141415, -2.47595506}, {-0.74812187, -1.49718290}},
      kPrinted, "Z");
  const double root = std::sqrt(2.0);
  expect_near(v["scores"],
              {{-6.1875 / root, -6.75 / root, -1.125 / root, 7.875 / root},
               {10.1875 / root, 1.5 / root, 9.625 / root, -2.125 / root},
               {-0.0625 / root, -4.875 / root, 3.875 / root, 5.5 / root},
               {-21.0625 / root, -3.75 / root, -19.375 / root, 5.125 / root}},
              1e-14, "S");
}

TEST_F(Solve, TwoHeads) {
  for (const char* name : {"001_1_3_two_heads", "001_2_2_vectors_two_heads"}) {
    const Json v = solved(example(name))["values"];
    expect_digits(v["weights_1"],
                  {{1.18306921e-01, 2.01966211e-02, 1.68483136e-01, 6.93013322e-01},
                   {8.48429312e-04, 9.98944583e-01, 2.06267364e-04, 7.20592823e-07},
                   {2.67590116e-02, 7.79843042e-04, 5.42703523e-02, 9.18190793e-01},
                   {2.47463407e-05, 6.12522986e-10, 2.06437556e-04, 9.99768815e-01}},
                  "P2");
    expect_near(
        v["Z_1"],
        {{-2.26628332, -2.26628332}, {1.99725652, 1.99725652}, {-2.82066255, -2.82066255}, {-2.99952526, -2.99952526}},
        kPrinted, "Z2");
    expect_near(v["concat"],
                {{-0.75220098, -1.50668721, -2.26628332, -2.26628332},
                 {-2.29564869, -6.58686077, 1.99725652, 1.99725652},
                 {-1.07141415, -2.47595506, -2.82066255, -2.82066255},
                 {-0.74812187, -1.49718290, -2.99952526, -2.99952526}},
                kPrinted, "concat");
    expect_near(v["result"],
                {{-6.04664898, 3.77781072, -0.75731086},
                 {8.28741825, 0.14750295, 10.57968068},
                 {-7.39057350, 5.09982766, -0.01158073},
                 {-8.25045389, 4.87428797, -1.50140321}},
                kPrinted, "Z_total");
  }
}

TEST_F(Solve, ColumnConventionAndArgmax) {
  const Json a = solved(example("004_a_scores"))["values"];
  expect_near(a["scores"], {{1054, 852, -396}}, 0, "scores of query 2");
  expect_near(a["weights"], {{1, std::exp(852.0 - 1054.0), 0}}, 1e-15, "softmax");
  const Json c = solved(example("004_c_argmax"))["values"];
  expect_near(c["weights"], {{1, 0, 0}}, 0, "argmax");
  expect_near(c["Z"], {{23, 46}}, 0, "h'_2");
}

TEST_F(Solve, ParametersOfALayer) {
  const Json v = solved(example("003_a_1_parameters"))["values"];
  EXPECT_EQ(v["parameters"].get<std::int64_t>(), 9LL * 400 * (2 * 400 + 400) + 9LL * 400 * 400 + 400);
}

// A = −α(‖δ‖² − 2δ·Δ) = −α(‖δ−Δ‖² − ‖Δ‖²), b.1 and d.2.
TEST_F(Solve, QuadraticScores) {
  const Json v = solved(example("003_b_1_quadratic_scores"))["values"];
  std::vector<double> row;
  double sum = 0;
  for (int r = -1; r <= 1; ++r)
    for (int c = -1; c <= 1; ++c) {
      row.push_back(-0.5 * ((r - 1.0) * (r - 1.0) + (c + 1.0) * (c + 1.0) - 2));
      sum += std::exp(row.back());
    }
  expect_near(v["scores"], {row}, 1e-15, "A");
  for (double& x : row) x = std::exp(x) / sum;
  expect_near(v["weights"], {row}, 1e-15, "softmax");
  EXPECT_EQ(v["scores_on_grid_5"].size(), 3u);
  EXPECT_EQ(v["scores_on_grid_5"][2][0], v["scores"][0][6]);
}

TEST_F(Solve, LimitOfLargeAlpha) {
  const Json v = solved(example("003_d_1_large_alpha"))["values"];
  const std::vector<double> alphas{0, 0.1, 1, 10, 100, 1000};
  ASSERT_EQ(v["limit"].size(), alphas.size());
  double before = 1;
  for (std::size_t n = 0; n < alphas.size(); ++n) {
    // 1/(1 + Σ exp(−α‖k−j‖²)) as in the proof; the centre lies at the right of the middle row.
    double others = 0;
    for (int r = -1; r <= 1; ++r)
      for (int c = -2; c <= 0; ++c)
        if (r != 0 || c != 0) others += std::exp(-alphas[n] * (r * r + c * c));
    EXPECT_NEAR(v["limit"][n][1].get<double>(), 1 / (1 + others), 1e-14);
    EXPECT_NEAR(v["limit"][n][2].get<double>(), others / (1 + others), 1e-14);
    EXPECT_LE(v["limit"][n][2].get<double>(), before);
    before = v["limit"][n][2].get<double>();
  }
  EXPECT_GT(v["limit"][4][2].get<double>(), 1e-44);  // tiny, but not rounded away
  expect_near(v["weights@1000"], {{0, 0, 0, 0, 0, 1, 0, 0, 0}}, 0, "one-hot");
}

// The shared-attention notebook's own program, on the example's weights; axis 0 is its softmax helper.
void check_shared(const std::string& name, bool down_columns) {
  std::ifstream stream(example("000_shared_attention"));
  const Json given = Json::parse(stream);
  const auto normalized = [](std::vector<double> x) {
    double mean = 0, variance = 0;
    for (const double e : x) mean += e / 16;
    for (const double e : x) variance += (e - mean) * (e - mean) / 16;
    for (double& e : x) e = (e - mean) / std::sqrt(variance);
    return x;
  };
  const auto apply = [](const Json& w, const std::vector<double>& x) {
    std::vector<double> y(16);
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j) y[i] += w[i][j].get<double>() * x[j];
    return y;
  };
  const Json v = solved(example(name))["values"];
  const std::vector<double> s = normalized(given["x_s"]);
  for (const std::string task : {"t", "r"}) {
    const std::vector<double> x = normalized(given["values"][task]);
    std::vector<double> y = x;
    for (int h = 0; h < 6; ++h) {
      const Json& head = given["heads"][h];
      const std::vector<double> q = apply(head["W_qk"], s);
      const std::vector<double> values = apply(head["W_v" + task], x);
      Rows a(16, std::vector<double>(16));
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) a[i][j] = std::exp(q[i] * q[j] + head["bias"].get<double>());
      for (int n = 0; n < 16; ++n) {
        double sum = 0;
        for (int m = 0; m < 16; ++m) sum += down_columns ? a[m][n] : a[n][m];
        for (int m = 0; m < 16; ++m) (down_columns ? a[m][n] : a[n][m]) /= sum;
      }
      expect_near(v["weights_" + std::to_string(h)], a, 1e-13, "A");
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) y[i] += a[i][j] * values[j] * given["W_" + task][h][0].get<double>();
    }
    Rows column;
    for (const double e : y) column.push_back({e});
    expect_near(v["y_" + task], column, 1e-12, "y_" + task);
    EXPECT_EQ(v["X_" + task].size(), 16u);
    EXPECT_EQ(v["X_" + task][0].size(), 6u);
  }
}

TEST_F(Solve, SharedAttention) { check_shared("000_shared_attention", false); }
TEST_F(Solve, SharedAttentionDownColumns) { check_shared("000_shared_attention_columns", true); }

TEST_F(Solve, EveryExampleAgreesInEveryForm) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(std::string(RAPT_SOURCE_DIR) + "/examples")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".json" || name.starts_with("count_")) continue;
    ++count;
    const std::string file = entry.path().string();
    for (const std::vector<std::string>& more :
         std::vector<std::vector<std::string>>{{}, {"--markdown"}, {"--json"}, {"--precision", "3"}}) {
      std::vector<std::string> words{"solve", file};
      words.insert(words.end(), more.begin(), more.end());
      const CliResult result = run_cli(words);
      EXPECT_EQ(result.status, 0) << name << " " << result.err;
      EXPECT_EQ(result.out.find("DIFFERS"), std::string::npos) << name;
      EXPECT_EQ(result.out.find("nan"), std::string::npos) << name;
    }
  }
  EXPECT_GE(count, 12);
}

// ---- How it is printed.

TEST_F(Solve, TextHasTheDocumentsDigits) {
  const std::string out = run_cli({"solve", example("001_1_2_one_head")}).out;
  for (const char* text : {"Q = X W_Q   [4 × 2]", "-2.25   4.50", "S = Q Kᵀ / √2",
                           "4.79433566e-05  3.22098620e-05      0.00171943      0.99820042", "-0.75220098  -1.50668721",
                           "48 of 48 printed numbers agree."})
    EXPECT_NE(out.find(text), std::string::npos) << text;
}

TEST_F(Solve, ColumnsOfATableLineUp) {
  std::istringstream out(run_cli({"solve", example("001_1_3_two_heads")}).out);
  std::string line;
  std::vector<std::string> table;
  while (std::getline(out, line))
    if (line.starts_with("Y = ")) break;
  for (int n = 0; n < 4 && std::getline(out, line); ++n) table.push_back(line);
  ASSERT_EQ(table.size(), 4u);
  for (const std::string& row : table) EXPECT_EQ(row.size(), table[0].size()) << row;
  EXPECT_NE(table[1].find(" 8.28741825"), std::string::npos);
}

TEST_F(Solve, Precision) {
  const std::string out = run_cli({"solve", example("001_1_2_one_head"), "--precision", "3"}).out;
  EXPECT_NE(out.find("-0.752  -1.507"), std::string::npos);
  EXPECT_NE(out.find("4.794e-05"), std::string::npos);
}

TEST_F(Solve, Markdown) {
  const std::string out = run_cli({"solve", example("001_1_3_two_heads"), "--markdown"}).out;
  for (const char* text : {"# Practical 10, question 1.3", "## Head 1", "\\begin{bmatrix}",
                           "4.79433566 \\times 10^{-5} & 3.22098620 \\times 10^{-5}", "Q^{(0)} = X W_Q^{(0)} = ",
                           "\\frac{Q^{(0)} {K^{(0)}}^\\top}{\\sqrt{2}}", "| result[1,1] | -6.04664898 |"})
    EXPECT_NE(out.find(text), std::string::npos) << text;
  EXPECT_EQ(std::count(out.begin(), out.end(), '$') % 4, 0);
  EXPECT_EQ(out.find("}^\\top"), out.find("}}^\\top") + 1);  // LaTeX refuses K^{(0)}^\top
}

TEST_F(Solve, OneSmallNumberStaysAlone) {
  const std::string out = run_cli({"solve", example("001_1_2_one_head")}).out;
  // In the row with the smallest weights, large ones stay readable.
  EXPECT_NE(out.find("9.06143069e-09      0.00187818"), std::string::npos) << out;
  EXPECT_NE(out.find("0.99812178"), std::string::npos) << out;
}

TEST_F(Solve, AGivenNumberIsNeverWrittenAsZero) {
  const std::string file = write({{"X", {{1, 2}, {3, 0.00001}}}});
  const auto holds = [&](std::vector<std::string> options, const std::string& text) {
    options.insert(options.begin(), {"solve", file});
    const std::string out = run_cli(options).out;
    EXPECT_NE(out.find(text), std::string::npos) << out;
  };
  holds({}, "3.00000  0.00001");
  holds({"--precision", "4"}, "3  1.0000e-05");
  holds({"--precision", "4", "--markdown"}, "3 & 1.0000 \\times 10^{-5}");
}

TEST_F(Solve, MarkdownKeepsLabelsAndHeads) {
  const std::string labelled = run_cli({"solve", example("002_additive"), "--markdown"}).out;
  EXPECT_NE(labelled.find(
                "\\begin{matrix}\n\\text{the} \\\\\n\\text{cat} \\\\\n\\text{sat}\n\\end{matrix}\n\\begin{bmatrix}"),
            std::string::npos)
      << labelled;
  const std::string heads = run_cli({"solve", example("001_1_3_two_heads"), "--markdown"}).out;
  EXPECT_NE(heads.find("P^{(1)} = \\operatorname{softmax}(S^{(1)})"), std::string::npos) << heads;
  EXPECT_EQ(heads.find("softmax}(S)"), std::string::npos);
}

TEST_F(Solve, VectorForm) {
  const std::string out = run_cli({"solve", example("001_2_1_vectors")}).out;
  for (const char* text : {"e_11 = (x_1·x_1) / √3 = (-2·(-2) + 1·1 + 0.5·0.5) / √3 = 3.03108891",
                           "a_42 = exp(e_42) / Σ_k exp(e_4k) = 1.71589066e-05",
                           "z_1 = Σ_j a_1j x_j = ", "= [-1.8132334, 0.62944623, 0.33116848]"})
    EXPECT_NE(out.find(text), std::string::npos) << text;
  EXPECT_EQ(out.find("softmax(S)"), std::string::npos);
  const std::string two = run_cli({"solve", example("001_2_2_vectors_two_heads")}).out;
  for (const char* text : {"k(0)_1 = x_1 W_K(0) = [5.75, 1.5]", "q(0)_1·k(0)_1",
                           "y_1 = [z(0)_1, z(1)_1] W_O = [-6.04664898, 3.77781072, -0.75731086]"})
    EXPECT_NE(two.find(text), std::string::npos) << text;
  const std::string columns = run_cli({"solve", example("004_c_argmax"), "--vectors"}).out;
  EXPECT_NE(columns.find("q_2 = W_Q h_2 = [4, 35]"), std::string::npos);
  EXPECT_NE(columns.find("e_21 = q_2·k_1 = 4·1 + 35·30 = 1054"), std::string::npos);
  EXPECT_EQ(columns.find("e_11"), std::string::npos);  // only query 2 was requested
}

TEST_F(Solve, QueriesChooseTheRowsThatAreShown) {
  const std::string out = run_cli({"solve", example("004_a_scores")}).out;
  EXPECT_NE(out.find("query 2  1054  852  -396"), std::string::npos);
  EXPECT_EQ(out.find("query 1"), std::string::npos);
}

// ---- The comparison.

TEST_F(Solve, ADifferenceInTheLastPrintedDigitFails) {
  const Json input{{"X", {{1, 0}, {0, 1}}}};  // weights 0.669764… and 0.330235…
  const double p = 1 / (1 + std::exp(-1 / std::sqrt(2.0)));
  const auto with = [&](const std::string& printed) {
    Json problem = input;
    problem["expect"] = {{"weights", {printed, "0.33 0.67"}}};
    return run_cli({"solve", write(problem)});
  };
  ASSERT_NEAR(p, 0.66976155, 5e-9);
  EXPECT_EQ(with("0.66976155 0.33023845").status, 0);
  EXPECT_EQ(with("0.66976156 0.33023845").status, 1);
  EXPECT_EQ(with("6.6976155e-1 3.3e-1").status, 0);
  EXPECT_EQ(with("6.697e-1 0.33").status, 1);
  EXPECT_EQ(with("0.67 0.33").status, 0);
  EXPECT_EQ(with("0.670 0.33").status, 0);
  EXPECT_EQ(with("0.6700 0.33").status, 1);  // printed zeros are digits
  EXPECT_EQ(with("1 0.33").status, 1);       // integers are exact
  const CliResult result = with("0.66976156 0.33023845");
  EXPECT_NE(result.out.find("DIFFERS"), std::string::npos);
  EXPECT_NE(result.out.find("3 of 4 printed numbers agree"), std::string::npos);
  EXPECT_EQ(result.err, "");
}

TEST_F(Solve, JsonTellsWhatDiffers) {
  const Json result = solved(write({{"X", {{1, 0}, {0, 1}}}, {"expect", {{"Z", {{0.5, 0.5}, {0.3, 0.7}}}}}}), 1);
  EXPECT_EQ(result["agrees"], false);
  EXPECT_EQ(result["expect"][0]["agrees"], false);
  EXPECT_EQ(result["expect"][2]["agrees"], true);
  EXPECT_EQ(result["expect"][2]["printed"], "0.3");
}

// ---- What lies between scores and weights.

const Rows kX{{1, 2}, {-1, 0.5}, {0.25, -1}};

double dot(const std::vector<double>& a, const std::vector<double>& b) { return a[0] * b[0] + a[1] * b[1]; }

TEST_F(Solve, CausalMaskHidesWithNull) {
  const Json v = values({{"X", kX}, {"score", "dot"}, {"causal", "top_left"}});
  EXPECT_TRUE(v["logits"][0][1].is_null());
  EXPECT_TRUE(v["logits"][1][2].is_null());
  EXPECT_FALSE(v["logits"][2][2].is_null());
  expect_near(Json::array({v["weights"][0]}), {{1, 0, 0}}, 0, "first row");
  const double p = 1 / (1 + std::exp(dot(kX[1], kX[1]) - dot(kX[1], kX[0])));
  EXPECT_NEAR(v["weights"][1][0].get<double>(), p, 1e-15);
  EXPECT_NEAR(v["scores"][0][1].get<double>(), dot(kX[0], kX[1]), 0);  // the score itself stays visible
}

TEST_F(Solve, MaskWindowAndFullyHiddenRows) {
  const Json v = values({{"X", kX},
                         {"score", "dot"},
                         {"mask", {{true, false, true}, {false, false, false}, {1, 1, 0}}},
                         {"window", {0, 1}}});
  expect_near(v["weights"], {{1, 0, 0}, {0, 0, 0}, {0, 0, 0}}, 0, "weights");
  expect_near(v["Z"], {{1, 2}, {0, 0}, {0, 0}}, 0, "Z");
}

TEST_F(Solve, SoftcapBiasAndScale) {
  const Json v = values({{"X", kX}, {"scale", 0.5}, {"softcap", 2}, {"bias", {{0, 1, -1}}}});
  const double bias[] = {0, 1, -1};
  for (std::size_t i = 0; i < 3; ++i) {
    double sum = 0;
    std::vector<double> expected;
    for (std::size_t j = 0; j < 3; ++j) {
      const double score = 0.5 * dot(kX[i], kX[j]);
      EXPECT_NEAR(v["scores"][i][j].get<double>(), score, 1e-15);
      expected.push_back(std::exp(2 * std::tanh(score / 2) + bias[j]));
      sum += expected.back();
    }
    for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(v["weights"][i][j].get<double>(), expected[j] / sum, 1e-14);
  }
}

TEST_F(Solve, BiasesOutputAndResidual) {
  const Json v = values({{"X", kX},
                         {"W_V", {{1, 0}, {0, 1}}},
                         {"b_V", {10, 20}},
                         {"W_O", {{2, 0}, {0, 2}}},
                         {"b_O", {1, -1}},
                         {"residual", true}});
  const Json plain = values({{"X", kX}});
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(v["result"][i][0].get<double>(), 2 * (plain["Z"][i][0].get<double>() + 10) + 1 + kX[i][0], 1e-13);
    EXPECT_NEAR(v["result"][i][1].get<double>(), 2 * (plain["Z"][i][1].get<double>() + 20) - 1 + kX[i][1], 1e-13);
  }
}

TEST_F(Solve, OtherMechanismsGiveTheirScores) {
  const Json additive = values({{"X", kX}, {"score", "additive"}, {"parameters", {{"w", {0.5, -2}}}}});
  const Json distance = values({{"X", kX}, {"score", "distance"}, {"parameters", {{"gamma", 0.75}}}});
  const Json cosine = values({{"X", kX}, {"score", "cosine"}, {"parameters", {{"tau", 3}}}});
  const Json alibi = values({{"X", kX}, {"score", "alibi"}, {"parameters", {{"m", 0.5}}}});
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      const auto &q = kX[i], &k = kX[j];
      const std::string at = std::to_string(i) + "," + std::to_string(j);
      EXPECT_NEAR(additive["scores"][i][j].get<double>(), 0.5 * std::tanh(q[0] + k[0]) - 2 * std::tanh(q[1] + k[1]),
                  1e-14)
          << at;
      EXPECT_NEAR(distance["scores"][i][j].get<double>(), -0.75 * (std::pow(q[0] - k[0], 2) + std::pow(q[1] - k[1], 2)),
                  1e-13)
          << at;
      EXPECT_NEAR(cosine["scores"][i][j].get<double>(), 3 * dot(q, k) / std::sqrt(dot(q, q) * dot(k, k)), 1e-14) << at;
      EXPECT_NEAR(alibi["scores"][i][j].get<double>(),
                  dot(q, k) / std::sqrt(2.0) - 0.5 * std::abs(double(i) - double(j)), 1e-14)
          << at;
    }
}

TEST_F(Solve, ParametersForEachHead) {
  const Json heads = {{{"parameters", {{"alpha", 2}}}}, Json::object()};
  const Json v = values({{"score", "quadratic"},
                         {"grid", {1, 2}},
                         {"heads", heads},
                         {"parameters", {{"alpha", {1, 3}}, {"center", {{0, 1}, {0, -1}}}}}});
  EXPECT_DOUBLE_EQ(v["scores_0"][0][1].get<double>(), -2 * (1 - 2 * 1));  // the head's own alpha wins
  EXPECT_DOUBLE_EQ(v["scores_1"][0][1].get<double>(), -3 * (1 - 2 * -1));
}

TEST_F(Solve, ColumnSoftmaxAddsUpDownColumns) {
  const Json v = values({{"X", kX}, {"softmax_axis", "columns"}});
  for (std::size_t j = 0; j < 3; ++j) {
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i) sum += v["weights"][i][j].get<double>();
    EXPECT_NEAR(sum, 1, 1e-15);
  }
}

TEST_F(Solve, BaseIsChangedByTheFile) {
  std::ofstream(directory_ / "base.json") << Json{{"X", kX}, {"score", "dot"}, {"title", "base"}}.dump();
  const Json result = solved(write({{"base", "base.json"}, {"title", "changed"}, {"score", "scaled_dot"}}));
  EXPECT_EQ(result["title"], "changed");
  EXPECT_NEAR(result["values"]["scores"][0][0].get<double>(), 5 / std::sqrt(2.0), 1e-15);
}

// ---- Pictures.

TEST_F(Solve, PlotWritesAPictureOfEachHead) {
  const std::string folder = directory_ / "a/b";
  const CliResult result = run_cli({"solve", example("001_1_3_two_heads"), "--plot", folder});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(names_in(folder),
            (std::vector<std::string>{"001_1_3_two_heads_head_0.svg", "001_1_3_two_heads_head_1.svg"}));
  std::ifstream stream(folder + "/001_1_3_two_heads_head_1.svg");
  const std::string svg(std::istreambuf_iterator<char>(stream), {});
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_NE(svg.find("head 1</title>"), std::string::npos);
  EXPECT_NE(svg.find("0.69"), std::string::npos);
}

TEST_F(Solve, PlotLabelsAreEscaped) {
  const std::string file = write({{"title", "<script>x</script>"}, {"X", kX}, {"labels", {"<b>", "a&b", "\"c\""}}});
  const CliResult result = run_cli({"solve", file, "--plot", directory_ / "out"});
  EXPECT_EQ(result.status, 0) << result.err;
  std::ifstream stream(directory_ / "out/problem_head_0.svg");
  const std::string svg(std::istreambuf_iterator<char>(stream), {});
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_NE(svg.find("&lt;b&gt;"), std::string::npos);
  EXPECT_NE(svg.find("a&amp;b"), std::string::npos);
}

}  // namespace
}  // namespace rapt::test
