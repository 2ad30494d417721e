#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;

std::string example_file(const std::string& name) {
  return std::string(RAPT_SOURCE_DIR) + "/examples/" + name + ".json";
}

Json load_example(const std::string& name) {
  std::ifstream stream(example_file(name));
  return Json::parse(stream);
}

class SolveErrors : public testing::Test {
 protected:
  CliResult run_text(const std::string& text, const std::vector<std::string>& more = {}) {
    file_ = directory_ / "bad.json";
    std::ofstream(file_) << text;
    std::vector<std::string> words{"solve", file_};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  }

  // Bad input: nothing on stdout, one line on stderr that names the file and what is wrong.
  void expect_refused(const CliResult& result, const std::vector<std::string>& parts, const std::string& what) {
    EXPECT_EQ(result.status, 2) << what << "\n" << result.out.substr(0, 300);
    EXPECT_EQ(result.out, "") << what;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << what << "\n" << result.err;
    for (const std::string& part : parts)
      EXPECT_NE(result.err.find(part), std::string::npos) << what << "\n" << result.err;
  }

  TemporaryDirectory directory_;
  std::string file_;
};

TEST_F(SolveErrors, NameTheFileAndTheKey) {
  struct Case {
    const char* text;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases{
      {"", {"bad.json", "parse error"}},
      {"{\"X\": [[1,2]", {"bad.json", "parse error"}},
      {"\x93NUMPY", {"bad.json", "last read: '\xEF\xBF\xBD'"}},
      {"{\"X\": [[1e999]]}", {"bad.json"}},
      {"[1,2]", {"bad.json", "object"}},
      {"null", {"bad.json"}},
      {"{}", {"bad.json", "expected an input, X, h, or q and k, got none"}},
      {"{\"Y\": 1}", {"bad.json", "expected the keys ", "got \"Y\""}},
      {"{\"X\": 3}", {"X", "list"}},
      {"{\"X\": []}", {"X", "list"}},
      {"{\"X\": [[]]}", {"X[0]"}},
      {"{\"X\": [[1,2],[3]]}", {"X[1]", "expected a row of 2 numbers as those before, got 1"}},
      {"{\"X\": [[1,\"2\"]]}", {"X[0][1]", "number", "\"2\""}},
      {"{\"X\": [[1,null]]}", {"X[0][1]", "null"}},
      {"{\"X\": {\"ones\": [2]}}", {"X.ones", "[rows, columns]"}},
      {"{\"X\": {\"ones\": [2, 100000000]}}", {"X.ones[1]"}},
      {"{\"X\": {\"twos\": [2, 2]}}", {"X", "twos"}},
      {"{\"X\": {\"ones\": [300, 2]}}", {"X", "256 rows"}},
      {"{\"X\": [[1,2]], \"h\": [[1,2]]}", {"h", "expected one name for the input, X or h, got both"}},
      {"{\"X\": [[1,2]], \"W_Q\": [[1],[2],[3]]}", {"W_Q", "expected 2 inputs", "got 3"}},
      {"{\"X\": [[1,2]], \"W_Q\": [[1],[2]]}", {"bad.json"}},
      {"{\"X\": [[1,2]], \"b_Q\": [1]}", {"b_Q", "W_Q"}},
      {"{\"X\": [[1,2]], \"W_V\": [[1],[2]], \"b_V\": [1,2]}", {"b_V", "expected 1 number", "got 2"}},
      {"{\"X\": [[1,2]], \"W_O\": [[1]]}", {"W_O", "expected 2 inputs", "got 1"}},
      {"{\"X\": [[1,2]], \"residual\": true, \"W_O\": [[1],[1]]}", {"residual", "1 × 1"}},
      {"{\"X\": [[1,2]], \"heads\": []}", {"heads"}},
      {"{\"X\": [[1,2]], \"heads\": [{\"W_Z\": 1}]}", {"heads[0]", "W_Z"}},
      {"{\"X\": [[1,2]], \"heads\": [{}], \"W_Q\": [[1],[2]]}", {"W_Q", "head"}},
      {"{\"X\": [[1,2]], \"heads\": [{}, {\"W_K\": [[1]]}]}", {"heads[1].W_K"}},
      {"{\"q\": [[1,2]], \"k\": [[1,2]], \"v\": [[1],[2]]}", {"v: expected 1 row as in k, got 2"}},
      {"{\"q\": [[1,2]]}", {"expected an input, X, h, or q and k, got none"}},
      {"{\"X\": [[1,2]], \"score\": \"nothing\"}", {"score", "nothing"}},
      {"{\"X\": [[1,2]], \"score\": 1}", {"score", "expected a string, got 1"}},
      {"{\"X\": [[1,2]], \"score\": \"bilinear\"}", {"W"}},
      {"{\"X\": [[1,2]], \"parameters\": {\"tau\": 1}}",
       {"parameters.tau", "expected no parameter for the score scaled_dot, got 'tau'"}},
      {"{\"X\": [[1,2]], \"score\": \"cosine\", \"parameters\": {\"tau\": [[1]]}}", {"parameters.tau", "a number"}},
      {"{\"X\": [[1,2]], \"score\": \"cosine\", \"parameters\": {\"tau\": [1,2]}}",
       {"parameters.tau", "expected one entry for each of 1 head, got 2"}},
      {"{\"X\": [[1,2]], \"score\": \"cosine\", \"parameters\": 3}", {"parameters", "object"}},
      {"{\"X\": [[1,2]], \"score\": \"t5\", \"heads\": [{\"parameters\": {\"max_distance\": 3}}]}",
       {"max_distance", "all heads"}},
      {"{\"X\": [[1,2]], \"scale\": \"half\"}", {"scale", "sqrt"}},
      {"{\"X\": [[1,2]], \"score\": \"dot\", \"scale\": \"sqrt\"}", {"scale", "dot"}},
      {"{\"X\": [[1,2]], \"softcap\": -1}", {"softcap"}},
      {"{\"X\": [[1,2]], \"normalize\": \"max\"}", {"normalize", "argmax"}},
      {"{\"X\": [[1,2]], \"softmax_axis\": \"both\"}", {"softmax_axis"}},
      {"{\"X\": [[1,2]], \"softmax_axis\": \"columns\", \"normalize\": \"argmax\"}", {"softmax_axis"}},
      {"{\"X\": [[1,2]], \"causal\": true}", {"causal"}},
      {"{\"X\": [[1,2]], \"causal\": \"left\"}", {"causal", "top_left"}},
      {"{\"X\": [[1,2]], \"window\": [1]}", {"window"}},
      {"{\"X\": [[1,2]], \"mask\": [[1,1]]}", {"mask", "1 × 2", "1 × 1"}},
      {"{\"X\": [[1,2]], \"mask\": [[2]]}", {"mask"}},
      {"{\"X\": [[1,2]], \"mask\": [1]}", {"mask"}},
      {"{\"X\": [[1,2],[1,2]], \"mask\": [[1,1],[1]]}", {"mask"}},
      {"{\"X\": [[1,2]], \"bias\": [[1,2]]}", {"bias", "1 × 2"}},
      {"{\"X\": [[1,2]], \"queries\": [2]}", {"queries[0]", "1 to 1"}},
      {"{\"X\": [[1,2]], \"queries\": [0]}", {"queries[0]"}},
      {"{\"X\": [[1,2]], \"labels\": [\"a\",\"b\"]}", {"labels", "expected 1 label, one for each row, got 2"}},
      {"{\"X\": [[1,2]], \"precision\": 99}", {"precision"}},
      {"{\"X\": [[1,2]], \"form\": \"poem\"}", {"form"}},
      {"{\"X\": [[1,2]], \"vectors\": \"diagonal\"}", {"vectors"}},
      {"{\"score\": \"quadratic\", \"parameters\": {\"alpha\": 1, \"center\": [0,1]}}", {"grid"}},
      {"{\"score\": \"quadratic\", \"grid\": [3,3], \"parameters\": {\"alpha\": 1}}", {"center"}},
      {"{\"score\": \"quadratic\", \"grid\": [300,300], \"parameters\": {\"alpha\": 1, \"center\": [0,1]}}", {"grid"}},
      {"{\"score\": \"quadratic\", \"grid\": [2,2], \"v\": [[1]], \"parameters\": {\"alpha\": 1, \"center\": [0,1]}}",
       {"v"}},
      {"{\"X\": [[1,2]], \"limit\": {\"parameter\": \"beta\", \"values\": [1]}}", {"limit.parameter", "beta"}},
      {"{\"X\": [[1,2]], \"limit\": {\"values\": [1]}}", {"limit", "parameter"}},
      {"{\"X\": [[1,2]], \"limit\": {\"parameter\": \"scale\", \"values\": []}}", {"limit.values"}},
      {"{\"values\": {\"t\": [1]}}", {"x_s"}},
      {"{\"x_s\": [1,2]}", {"values"}},
      {"{\"x_s\": [1,2], \"values\": {\"t\": [1]}, \"heads\": [{\"W_qk\": [[1,0],[0,1]]}]}",
       {"values.t: expected 2 positions as in x_s, got 1"}},
      {"{\"x_s\": [1,2], \"values\": {\"t\": [1,2]}, \"heads\": [{\"W_qk\": [[1,0],[0,1]]}]}", {"heads[0]", "W_vt"}},
      {"{\"x_s\": [1,2], \"values\": {\"t\": [1,2]}, \"heads\": [{\"W_qk\": [[1,0]], \"W_vt\": [[1,0],[0,1]]}]}",
       {"heads[0].W_qk", "1 × 2"}},
      {"{\"x_s\": [1,1], \"normalize_inputs\": true, \"values\": {\"t\": [1,2]}, \"heads\": [{\"W_qk\": [[1,0],[0,1]], "
       "\"W_vt\": [[1,0],[0,1]]}]}",
       {"x_s", "deviation"}},
      {"{\"count\": {\"din\": 4}}", {"count", "tokens"}},
      {"{\"count\": 4}", {"count", "object"}},
      {"{\"X\": [[1,2]], \"expect\": {\"scores\": \"abc\"}}", {"expect.scores", "abc"}},
      {"{\"X\": [[1,2]], \"expect\": {\"scores\": \"1 2\"}}", {"expect.scores", "1 × 2", "1 × 1"}},
      {"{\"X\": [[1,2]], \"expect\": {\"nothing\": 1}}", {"expect.nothing", "scores, weights"}},
      {"{\"X\": [[1,2]], \"expect\": {\"scores\": []}}", {"expect.scores"}},
      {"{\"X\": [[1,2]], \"expect\": {\"scores\": [[[1]]]}}", {"expect.scores"}},
      {"{\"base\": \"missing.json\"}", {"missing.json"}},
      {"{\"base\": \"bad.json\"}", {"base"}},
      {"{\"base\": 3}", {"base", "expected a string, got 3"}},
      {"{\"title\": \"a\\nb\", \"line\\nbreak\": 1}", {"line\\nbreak"}},
  };
  for (const Case& c : cases) {
    const CliResult result = run_text(c.text);
    expect_refused(result, c.parts, c.text);
    const bool by_system = result.err.find("No such file") != std::string::npos;
    EXPECT_TRUE(by_system || result.err.find("expected ") != std::string::npos) << result.err;
  }
}

TEST_F(SolveErrors, DeepNestingIsRefused) {
  expect_refused(run_text("{\"X\": " + std::string(100000, '[') + std::string(100000, ']') + "}"),
                 {"bad.json", "levels of nesting"}, "lists");
}

TEST_F(SolveErrors, FilesThatCannotBeRead) {
  expect_refused(run_cli({"solve", directory_ / "nowhere.json"}), {"nowhere.json"}, "missing");
  expect_refused(run_cli({"solve", directory_.path().string()}), {directory_.path().string()}, "a folder");
  expect_refused(run_cli({"solve"}), {"FILE.json"}, "no file");
}

TEST_F(SolveErrors, Options) {
  const std::string good = "{\"X\": [[1,2],[3,4]]}";
  EXPECT_EQ(run_text(good).status, 0);
  expect_refused(run_text(good, {"--precision", "-1"}), {"--precision"}, "-1");
  expect_refused(run_text(good, {"--precision", "18"}), {"--precision", "17"}, "18");
  expect_refused(run_text(good, {"--precision", "three"}), {"--precision", "three"}, "three");
  expect_refused(run_text(good, {"--json", "--markdown"}), {"--json", "--markdown"}, "both");
  expect_refused(run_text(good, {"--plot", file_}), {"bad.json"}, "a folder that is a file");
  expect_refused(run_text("{\"count\": {\"din\": 4, \"dhid\": 4, \"tokens\": 4}}", {"--plot", directory_ / "p"}),
                 {"--plot"}, "nothing to draw");
  EXPECT_TRUE(names_in(directory_ / "p").empty());
}

TEST_F(SolveErrors, PerVectorFormNeedsVectors) {
  for (const char* name : {"000_shared_attention", "003_a_1_parameters", "003_d_1_large_alpha"})
    expect_refused(run_cli({"solve", example_file(name), "--vectors"}), {"per-vector"}, name);
}

// Every truncation and every replaced value gives a result or one line of error, never a crash.
TEST_F(SolveErrors, TornFilesNeverCrash) {
  std::ifstream stream(example_file("001_1_1_one_query"));
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  for (std::size_t end = 0; end + 3 < text.size(); end += 9) {
    const CliResult result = run_text(text.substr(0, end));
    expect_refused(result, {"bad.json"}, std::to_string(end));
  }
}

TEST_F(SolveErrors, ExchangedValuesNeverCrash) {
  const std::vector<Json> wrong{nullptr, true, -1, "text", Json::array(), Json::object(), {{1, 2}}, {{{1}}}};
  for (const char* name : {"001_1_3_two_heads", "002_additive", "003_d_1_large_alpha", "004_a_scores"}) {
    const Json original = load_example(name);
    for (const auto& [key, unused] : original.items())
      for (const Json& value : wrong) {
        Json changed = original;
        changed[key] = value;
        const CliResult result = run_text(changed.dump());
        const std::string what = std::string(name) + " " + key + " = " + value.dump();
        EXPECT_GE(result.status, 0) << what;
        EXPECT_LE(result.status, 2) << what << "\n" << result.err;
        if (result.status == 2) expect_refused(result, {"bad.json"}, what);
      }
  }
}

}  // namespace
}  // namespace rapt::test
