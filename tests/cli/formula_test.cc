// Formulas on the command line: attend, solve, train, bench and list.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;

class CliFormula : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return directory_ / name; }

  CliResult attend(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> words{"attend",      "--q",    file("q.npy"), "--k",   file("k.npy"), "--v",
                                   file("v.npy"), "--grad", file("v.npy"), "--out", file(out)};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  }

  void SetUp() override {
    save_f8(file("q.npy"), {2, 12, 5}, pseudo_random(120, 1));
    save_f8(file("k.npy"), {2, 12, 5}, pseudo_random(120, 2));
    save_f8(file("v.npy"), {2, 12, 5}, pseudo_random(120, 3));
  }

  void expect_same(const std::string& a, const std::string& b, const std::string& name) const {
    const Loaded x = load(file(a + "/" + name)), y = load(file(b + "/" + name));
    ASSERT_EQ(x.values.size(), y.values.size()) << name;
    for (std::size_t n = 0; n < x.values.size(); ++n) ASSERT_NEAR(x.values[n], y.values[n], 1e-12) << name << n;
  }

  TemporaryDirectory directory_;
};

TEST_F(CliFormula, AttendsAsTheMechanismsDo) {
  const CliResult formula =
      attend("a", {"--formula", "raw*scale - m*abs(i-j)", "--visible", "j <= i", "--param", "m=0.5,0.25", "--json"});
  ASSERT_EQ(formula.status, 0) << formula.err;
  EXPECT_EQ(Json::parse(formula.out)["mechanism"], "formula");
  ASSERT_EQ(attend("b", {"--score", "alibi", "--causal", "top_left", "--param", "m=0.5,0.25"}).status, 0);
  for (const char* name : {"out.npy", "lse.npy", "dq.npy", "dk.npy", "dv.npy", "d_m.npy"}) expect_same("a", "b", name);
  save_f8(file("w.npy"), {5}, pseudo_random(5, 4));
  ASSERT_EQ(attend("c", {"--pair", "w*tanh(q+k)", "--param", "w=" + file("w.npy")}).status, 0);
  ASSERT_EQ(attend("d", {"--score", "additive", "--param", "w=" + file("w.npy")}).status, 0);
  for (const char* name : {"out.npy", "dq.npy", "d_w.npy"}) expect_same("c", "d", name);
  const CliResult tables =
      attend("e", {"--formula", "raw*scale + t[clip(j-i,-2,2)+2]", "--param", "t=1,2,3,4,5", "--reference"});
  ASSERT_EQ(tables.status, 0) << tables.err;
  EXPECT_EQ(load(file("e/d_t.npy")).values.size(), 5u);
}

TEST_F(CliFormula, ShowsWhereATextIsWrong) {
  const CliResult done = attend("a", {"--formula", "raw*(scale"});
  EXPECT_EQ(done.status, 2);
  EXPECT_EQ(done.err,
            "rapt: formula: expected ')' or an operator, got the end, at character 11\n  raw*(scale\n            ^\n");
  EXPECT_EQ(attend("a", {"--formula", "raw", "--score", "dot"}).status, 2);
  const CliResult missing = attend("a", {"--formula", "raw*m"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_NE(missing.err.find("--param m: expected"), std::string::npos) << missing.err;
  EXPECT_EQ(attend("a", {"--formula", std::string(100000, '(')}).status, 2);
}

TEST_F(CliFormula, IsSolvedStepByStep) {
  std::ofstream(file("p.json")) << R"json({"X": [[1, 0], [0, 1], [1, -1]], "formula": "raw*scale - m*abs(i-j)",
    "visible": "j <= i", "parameters": {"m": 0.5}})json";
  const CliResult done = run_cli({"solve", file("p.json"), "--json"});
  ASSERT_EQ(done.status, 0) << done.err;
  // Row 2: raw 1, -1, 2 times 1/√2, less 1, 0.5, 0.
  const double s = 1 / std::sqrt(2.0), a = std::exp(s - 1), b = std::exp(-s - 0.5), c = std::exp(2 * s);
  EXPECT_NE(done.out.find("raw*scale - m*abs(i-j)"), std::string::npos);
  const Json weights = Json::parse(done.out)["values"]["weights"];
  EXPECT_NEAR(weights[2][0].get<double>(), a / (a + b + c), 1e-12);
  EXPECT_NEAR(weights[2][2].get<double>(), c / (a + b + c), 1e-12);
  EXPECT_EQ(weights[0][1].get<double>(), 0);
}

TEST_F(CliFormula, IsTrained) {
  const CliResult done = run_cli({"train",
                                  "reverse",
                                  "--model",
                                  "transformer",
                                  "--attention-formula",
                                  "raw*scale - m*abs(i-j) + t[clip(j-i,-4,4)+4]",
                                  "--cross-attention-formula",
                                  "c*raw",
                                  "--cross-attention-pair",
                                  "w*tanh(q+k)",
                                  "--cross-attention-visible",
                                  "abs(i-j) < 30",
                                  "--width",
                                  "16",
                                  "--heads",
                                  "2",
                                  "--inner",
                                  "16",
                                  "--layers",
                                  "1",
                                  "--epochs",
                                  "1",
                                  "--train-size",
                                  "64",
                                  "--valid-size",
                                  "8",
                                  "--test-size",
                                  "8",
                                  "--out",
                                  file("run")});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(run_cli({"evaluate", file("run"), "--json"}).status, 0);
  std::ifstream config(file("run/config.json"));
  const Json model = Json::parse(config)["model"];
  EXPECT_EQ(model["attention_formula"], "raw*scale - m*abs(i-j) + t[clip(j-i,-4,4)+4]");
  EXPECT_EQ(model["cross_attention_formula"], "c*raw");
  EXPECT_EQ(model["cross_attention_pair"], "w*tanh(q+k)");
  EXPECT_EQ(model["cross_attention_visible"], "abs(i-j) < 30");
  const CliResult cross = run_cli({"train", "reverse", "--model", "transformer", "--cross-attention-formula",
                                   "raw/keys", "--epochs", "1", "--out", file("other")});
  EXPECT_EQ(cross.status, 2);
  EXPECT_NE(cross.err.find("change with the batch"), std::string::npos) << cross.err;
  const CliResult twice = run_cli({"train", "reverse", "--model", "transformer", "--cross-attention", "dot",
                                   "--cross-attention-formula", "raw", "--out", file("other")});
  EXPECT_EQ(twice.status, 2);
  EXPECT_NE(twice.err.find("--cross-attention: expected no mechanism beside a formula"), std::string::npos)
      << twice.err;
  const CliResult refused = run_cli({"train", "reverse", "--model", "transformer", "--attention-formula", "raw/keys",
                                     "--epochs", "1", "--out", file("other")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("change with the batch"), std::string::npos) << refused.err;
  const CliResult both =
      run_cli({"train", "reverse", "--attention", "none", "--attention-formula", "raw", "--out", file("other")});
  EXPECT_EQ(both.status, 2);
  EXPECT_NE(both.err.find("--attention: expected no mechanism beside a formula"), std::string::npos) << both.err;
}

// A run of one epoch with more options; its config.json's section of the model.
class CliFormulaRun : public CliFormula {
 protected:
  CliResult train(const std::string& run, std::vector<std::string> options) {
    std::vector<std::string> all{"train", "reverse", "--model", "transformer"};
    if (std::ranges::find(options, "--config") != options.end()) all = {"train"};
    for (const char* small : {"--width", "16", "--heads", "2", "--inner", "16", "--layers", "1", "--epochs", "1",
                              "--train-size", "64", "--valid-size", "8", "--test-size", "8", "--threads", "1"})
      all.emplace_back(small);
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--out", file(run)});
    return run_cli(all);
  }
  Json config(const std::string& run) {
    std::ifstream stream(file(run) + "/config.json");
    return Json::parse(stream);
  }
};

// The later one counts, and neither is ever ignored.
TEST_F(CliFormulaRun, PassesThroughAConfigThatOptionsMayOverride) {
  ASSERT_EQ(
      train("first", {"--attention-formula", "raw*scale - m*abs(i-j)", "--attention-visible", "abs(i-j) < 9"}).status,
      0);
  const Json first = config("first");
  EXPECT_EQ(first["model"]["attention"], "");
  EXPECT_EQ(first["model"]["cross_attention"], "scaled_dot");
  // The formula and its condition pass through.
  ASSERT_EQ(train("again", {"--config", file("first/config.json")}).status, 0);
  EXPECT_EQ(config("again")["model"], first["model"]);
  EXPECT_EQ(run_cli({"evaluate", file("again"), "--json"}).status, 0);
  // A mechanism replaces them; the rows of a comparison differ.
  const CliResult compared =
      train("compared", {"--config", file("first/config.json"), "--compare", "attention=dot,t5,additive", "--json"});
  ASSERT_EQ(compared.status, 0) << compared.err;
  std::set<std::string> scores;
  for (const Json& row : Json::parse(compared.out)) {
    const auto name = row["attention"].get<std::string>();
    const Json model = config("compared/" + name)["model"];
    EXPECT_EQ(model["attention"], name);
    EXPECT_EQ(model["attention_formula"], "");
    EXPECT_EQ(model["attention_visible"], "");
    scores.insert(row["loss"].dump());
  }
  EXPECT_EQ(scores.size(), 3u) << compared.out;
  ASSERT_EQ(train("cross", {"--config", file("first/config.json"), "--cross-attention-formula", "2*raw*scale"}).status,
            0);
  EXPECT_EQ(config("cross")["model"]["cross_attention"], "");
  ASSERT_EQ(train("dot", {"--config", file("cross/config.json"), "--cross-attention", "dot"}).status, 0);
  EXPECT_EQ(config("dot")["model"]["cross_attention"], "dot");
  EXPECT_EQ(config("dot")["model"]["cross_attention_formula"], "");
  EXPECT_EQ(config("dot")["model"]["attention_formula"], "raw*scale - m*abs(i-j)");
  // A resumed run keeps its formula.
  const CliResult other = run_cli({"train", "--resume", "--attention", "dot", "--epochs", "2", "--out", file("first")});
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("attention: expected"), std::string::npos) << other.err;
}

TEST_F(CliFormulaRun, IsRefusedBesideAMechanismInAFile) {
  ASSERT_EQ(train("first", {"--attention-formula", "raw"}).status, 0);
  for (const auto& [name, part] :
       {std::pair("attention", "attention_formula"), std::pair("cross_attention", "cross_attention_visible")}) {
    Json edited = config("first");
    edited["model"]["attention"] = "";
    edited["model"][name] = "dot";
    edited["model"][part] = part == std::string("attention_formula") ? "raw" : "j < 3";
    std::ofstream(file("edited.json")) << edited.dump();
    const CliResult both = train("other", {"--config", file("edited.json")});
    EXPECT_EQ(both.status, 2);
    EXPECT_NE(both.err.find(std::string("model: ") + name + ": expected no mechanism beside " + part +
                            ", which takes its place, got 'dot'"),
              std::string::npos)
        << both.err;
    std::ofstream(file("first/config.json")) << edited.dump();
    EXPECT_EQ(run_cli({"evaluate", file("first")}).status, 2);
  }
}

TEST_F(CliFormula, IsMeasuredBesideTheMechanismItEquals) {
  const CliResult done = run_cli(
      {"bench", "--formula", "raw*scale - m*abs(j-i)", "--quick", "--no-naive", "--shape", "1,2,64,16", "--json"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Json rows = Json::parse(done.out)["rows"];
  ASSERT_EQ(rows.size(), 2u);
  for (const Json& row : rows) {
    EXPECT_EQ(row["name"], "formula");
    EXPECT_EQ(row["mechanism"], "alibi");
    EXPECT_GT(row["compiled_ratio"].get<double>(), 0);
  }
  const CliResult own = run_cli({"bench", "--formula", "raw*scale + u[i]*v[j]", "--visible", "u[i] > 0 or j < 9",
                                 "--quick", "--no-naive", "--shape", "1,2,96,16", "--json"});
  ASSERT_EQ(own.status, 0) << own.err;
  EXPECT_TRUE(Json::parse(own.out)["rows"][0]["compiled_ratio"].is_null());
  // No mask equals this condition, though a part of it is causal.
  for (const char* visible : {"j <= i and (i-j < 16 or j < 4)", "i - j < 16"}) {
    const CliResult masked = run_cli({"bench", "--formula", "raw*scale", "--visible", visible, "--quick", "--no-naive",
                                      "--direction", "forward", "--shape", "1,2,96,16", "--json"});
    ASSERT_EQ(masked.status, 0) << masked.err;
    const bool is_window = std::string(visible) == "i - j < 16";
    EXPECT_EQ(Json::parse(masked.out)["rows"][0]["compiled_ratio"].is_null(), !is_window) << visible;
  }
}

// Its tables are as large as the shape needs; an index outside a table is reported, not taken for a wrong result.
TEST_F(CliFormula, IsMeasuredWithTheTablesThatItReads) {
  const auto bench = [](const std::string& text) {
    return run_cli({"bench", "--formula", text, "--quick", "--no-naive", "--shape", "1,2,96,16", "--json"});
  };
  const CliResult done =
      bench("raw*scale + t[clip(j-i,-64,64)+64] + a[abs(i-j)] + s[i*96 + j] + r[j*j] + u[i, abs(i-j)]");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(Json::parse(done.out)["rows"].size(), 2u);
  const CliResult outside = bench("raw*scale + t[i - 2*j]");
  EXPECT_EQ(outside.status, 2);
  EXPECT_NE(outside.err.find("expected a formula that has a value for every pair of the shape, got NaN in "),
            std::string::npos)
      << outside.err;
  const CliResult huge = bench("raw*scale + t[j*j*j*j*j]");
  EXPECT_EQ(huge.status, 2);
  EXPECT_NE(huge.err.find("expected a table of at most 67108864 numbers, got indices up to 7737809375 over the shape"),
            std::string::npos)
      << huge.err;
}

TEST_F(CliFormula, IsListedForEveryMechanismThatHasOne) {
  const CliResult done = run_cli({"list", "--formulas", "--json"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Json list = Json::parse(done.out)["formulas"];
  EXPECT_EQ(list.size(), 13u);
  EXPECT_EQ(list[3]["pair"], "w*tanh(q+k)");
  EXPECT_TRUE(list[2]["formula"].is_null());
}

}  // namespace
}  // namespace rapt::test
