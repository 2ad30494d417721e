#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Exactly one line on stderr, starting with the program's name.
bool is_one_line(const std::string& text) {
  return text.starts_with("rapt: ") && std::count(text.begin(), text.end(), '\n') == 1 && text.back() == '\n' &&
         text.size() > 8;
}

Words split(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    std::ifstream in(entry.path(), std::ios::binary);
    files[entry.path().string()] = entry.is_regular_file() ? std::string(std::istreambuf_iterator<char>(in), {}) : "";
  }
  return files;
}

class CliErrors : public testing::Test {
 protected:
  CliErrors() {
    save_f4(file("q.npy"), {2, 4, 6, 3}, pseudo_random(144, 1));
    save_f4(file("k.npy"), {2, 4, 6, 3}, pseudo_random(144, 2));
    save_f4(file("v.npy"), {2, 4, 6, 3}, pseudo_random(144, 3));
    save_f4(file("go.npy"), {2, 4, 6, 3}, pseudo_random(144, 4));
    save_f4(file("flat.npy"), {6}, Numbers(6, 1));
    save_f4(file("five.npy"), {1, 1, 1, 6, 3}, Numbers(18, 1));
    save_f4(file("empty.npy"), {0, 3}, {});
    save_f4(file("short.npy"), {2, 4, 5, 3}, Numbers(120, 1));
    save_f4(file("narrow.npy"), {2, 4, 6, 2}, Numbers(96, 1));
    save_f4(file("batch3.npy"), {3, 4, 6, 3}, Numbers(216, 1));
    save_f4(file("heads3.npy"), {2, 3, 6, 3}, Numbers(108, 1));
    save_f4(file("square.npy"), {3, 3}, Numbers(9, 1));
    save_bool(file("mask.npy"), {6, 6}, Numbers(36, 1));
    save_bool(file("mask5.npy"), {5, 5}, Numbers(25, 1));
    save_i8(file("mask2.npy"), {6, 6}, Numbers(36, 2));
    save_f4(file("bias.npy"), {6, 6}, Numbers(36, 0.5));
    std::ofstream(file("text.npy")) << "hello";
    std::ofstream(file("nothing.npy"));
    fs::create_directory(file("folder"));
    std::ofstream(file("a_file")) << "x";
    fs::create_directories(file("taken/out.npy"));
  }

  std::string file(const std::string& name) const { return directory_ / name; }

  // attend with valid arguments, some replaced, others added.
  Words attend(const std::map<std::string, std::string>& changed, const Words& more = {}) const {
    std::map<std::string, std::string> given{
        {"--q", file("q.npy")}, {"--k", file("k.npy")}, {"--v", file("v.npy")}, {"--out", file("out")}};
    for (const auto& [name, value] : changed) given[name] = value;
    Words words{"attend"};
    for (const auto& [name, value] : given)
      if (value != "(none)") words.insert(words.end(), {name, value});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // `message`: what the line must say.
  void expect_refused(const Words& words, const std::string& message) const {
    SCOPED_TRACE(testing::PrintToString(words));
    const auto before = contents(directory_.path());
    const CliResult result = run_cli(words);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_TRUE(is_one_line(result.err)) << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(contents(directory_.path()) == before) << "files changed";
  }

  TemporaryDirectory directory_;
};

TEST_F(CliErrors, TheGoodCaseIsGood) {
  const CliResult result =
      run_cli(attend({}, {"--grad", file("go.npy"), "--mask", file("mask.npy"), "--bias", file("bias.npy")}));
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(CliErrors, Verbs) {
  expect_refused({}, "expected a verb, one of ");
  expect_refused({"paint"}, "expected one of the verbs list, attend, ");
  expect_refused({"paint"}, "got 'paint'");
  expect_refused({""}, "got ''");
  expect_refused({"--paint"}, "--paint");
  expect_refused({"list", "--paint"}, "list: expected one of its options, got '--paint' (see rapt list --help)");
  expect_refused({"list", "extra"}, "list: expected no further argument, got 'extra'");
  expect_refused({"plot", "paint"}, "plot: expected one of heatmap, curves, ");
  expect_refused({"plot", "heatmap"}, "plot heatmap: expected A.npy, got none (see rapt plot heatmap --help)");
  expect_refused({"attend"}, "attend: expected --q, got none (see rapt attend --help)");
  expect_refused({"count", "--heads"}, "count: --heads: expected a value, got none");
  expect_refused({"count", "--heads", "1", "--heads", "2"}, "count: --heads: expected one value, got 2");
  expect_refused({"list", "--json=maybe"}, "list: --json: expected no value, got 'maybe'");
  expect_refused({"line\nfeed\x01"}, "got 'line feed?'");
}

TEST_F(CliErrors, Files) {
  for (const char* option : {"--q", "--k", "--v"}) {
    expect_refused(attend({{option, "(none)"}}), std::string(option));
    expect_refused(attend({{option, file("missing.npy")}}), std::string("attend: ") + option);
    expect_refused(attend({{option, file("folder")}}), "directory");
    expect_refused(attend({{option, "/dev/zero"}}), "device");
    expect_refused(attend({{option, file("text.npy")}}), "text.npy");
    expect_refused(attend({{option, file("nothing.npy")}}), "nothing.npy");
    expect_refused(attend({{option, file("flat.npy")}}), "2 to 4 dimensions");
    expect_refused(attend({{option, file("five.npy")}}), "2 to 4 dimensions");
    expect_refused(attend({{option, ""}}), "empty");
  }
  expect_refused(attend({{"--out", "(none)"}}), "--out");
  expect_refused(attend({{"--out", ""}}), "empty");
  expect_refused(attend({{"--out", "--weights"}}), "--out: expected a value, got the option '--weights'");
  expect_refused(attend({{"--out", file("a_file")}}), "a_file");
  expect_refused(attend({{"--out", file("a_file/x")}}), "a_file");
  expect_refused(attend({{"--out", file("taken")}}), "out.npy");
  expect_refused(attend({{"--out", "/proc/rapt_cannot_write"}}), "/proc");
  expect_refused(attend({}, {"--q", file("q.npy")}), "--q");
}

TEST_F(CliErrors, Shapes) {
  expect_refused(attend({{"--k", file("short.npy")}}), "attend: --v: expected 5 keys as in k, got 6");
  expect_refused(attend({{"--k", file("narrow.npy")}}), "attend: --q: expected rows of 2 numbers");
  expect_refused(attend({{"--k", file("batch3.npy")}}), "attend: --k: expected batch 1 or 2, got 3");
  expect_refused(attend({{"--k", file("heads3.npy")}}),
                 "attend: --k: expected a divisor of the queries' 4 heads, got 3");
  expect_refused(attend({{"--v", file("heads3.npy")}}),
                 "attend: --v: expected a divisor of the queries' 4 heads, got 3");
  expect_refused(attend({{"--v", file("v.npy")}}, {"--v", file("heads3.npy")}), "attend: --v[1]: ");
  // One message, whether fewer heads are asked or more.
  save_f4(file("heads2.npy"), {2, 2, 6, 3}, Numbers(72, 1));
  expect_refused(attend({{"--q", file("heads2.npy")}}),
                 "attend: --k: expected a divisor of the queries' 2 heads, got 4");
  expect_refused(attend({}, {"--grad", file("narrow.npy")}), "attend: --grad[0]: expected shape [2, 4, 6, 3]");
  expect_refused(attend({}, {"--grad", file("go.npy"), "--grad", file("go.npy")}), "attend: --grad: expected 1 array,");
  expect_refused(attend({}, {"--v", file("v.npy"), "--grad", file("go.npy")}), "attend: --grad: expected 2 arrays");
}

TEST_F(CliErrors, Parameters) {
  const auto score = [&](const char* name, const Words& parameters) {
    Words words{"--score", name};
    for (const std::string& parameter : parameters) words.insert(words.end(), {"--param", parameter});
    return attend({}, words);
  };
  expect_refused(score("softdot", {}), "scaled_dot");
  expect_refused(score("", {}), "empty");
  expect_refused(score("dot", {"m=1"}), "--param m: score dot: expected no parameters, got parameter 'm'");
  expect_refused(score("alibi", {}), "attend: --param m: expected [4], got none");
  expect_refused(score("alibi", {"slope=1,1,1,1"}), "--param slope: score alibi: expected m, got parameter 'slope'");
  expect_refused(score("alibi", {"m=1,2"}), "attend: --param m: expected [4], got shape [1, 1, 1, 2]");
  expect_refused(score("alibi", {"m=1,2,3,4,5"}), "attend: --param m: expected [4]");
  expect_refused(score("alibi", {"m=1,2,3,4", "m=1,2,3,4"}), "twice");
  expect_refused(score("alibi", {"m"}), "NAME=");
  expect_refused(score("alibi", {"m="}), "NAME=");
  expect_refused(score("alibi", {"=1"}), "NAME=");
  expect_refused(score("alibi", {"m=1,,2,3"}), "expected numbers or an existing .npy file");
  expect_refused(score("alibi", {"m=1,2,3,nan"}), "expected numbers or an existing .npy file");
  expect_refused(score("alibi", {"m=1,2,3,inf"}), "expected numbers or an existing .npy file");
  expect_refused(score("alibi", {"m=1,2,3,1e999"}), "expected numbers or an existing .npy file");
  expect_refused(score("alibi", {"m=1,2,3,1e39"}), "expected numbers of at most 3.40282e+38 outside f64");
  expect_refused(score("cosine", {}), "attend: --param tau: expected [4] or a single number, got none");
  expect_refused(score("alibi", {"m=abc"}), "'abc'");
  expect_refused(score("alibi", {"m=" + file("text.npy")}), "--param m");
  expect_refused(score("alibi", {"m=" + file("folder")}), "directory");
  expect_refused(score("alibi", {"m=" + file("flat.npy")}), "attend: --param m: expected [4], got shape [1, 1, 1, 6]");
  expect_refused(score("bilinear", {"W=" + file("bias.npy")}),
                 "attend: --param W: expected [4, 3, 3] or [3, 3], got shape [1, 1, 6, 6]");
  expect_refused(score("bilinear", {"W=1,2,3"}), "attend: --param W: expected [4, 3, 3] or [3, 3]");
  expect_refused(score("additive", {"w=1,2"}), "attend: --param w: ");
  expect_refused(score("additive", {"w=" + file("flat.npy")}), "attend");
  expect_refused(score("additive", {"Wq=" + file("square.npy")}), "attend: --param w: expected");
  expect_refused(score("t5", {"table=1,2,3,4", "max_distance=0"}),
                 "attend: --param max_distance: expected an integer from 1 to");
  expect_refused(score("t5", {"table=1,2,3,4", "max_distance=1.5"}), "expected an integer");
  expect_refused(score("t5", {"table=1,2,3,4", "max_distance=x"}), "attend: --param max_distance");
  expect_refused(score("t5", {"table=1,2,3"}), "attend: --param table: expected [4, any]");
  expect_refused(score("shaw", {"a=1,2,3,4,5,6"}), "odd");
  expect_refused(score("quadratic", {"alpha=1,1,1,1", "center=1,1,1,1,1,1,1,1"}), "grid");
  expect_refused(score("quadratic", {"grid=2,2", "alpha=1,1,1,1", "center=1,1,1,1,1,1,1,1"}), "grid");
  expect_refused(score("quadratic", {"grid=2", "alpha=1,1,1,1", "center=1,1,1,1,1,1,1,1"}), "attend: --param grid");
  expect_refused(score("quadratic", {"grid=0,6", "alpha=1,1,1,1", "center=1,1,1,1,1,1,1,1"}), "attend: --param grid");
  expect_refused(score("quadratic", {"grid=-2,-3", "alpha=1,1,1,1", "center=1,1,1,1,1,1,1,1"}), "attend: --param grid");
  expect_refused(score("quadratic", {"grid=4611686018427387904,4", "alpha=1,1,1,1", "center=1,1,1,1,1,1,1,1"}), "grid");
  expect_refused(score("learned_2d", {"grid=9223372036854775807,9223372036854775807", "row=1,2,3", "col=1,2,3"}),
                 "attend");
  expect_refused(score("scaled_dot", {"grid=2,3"}), "expected no parameters, got parameter 'grid'");
  expect_refused(score("learned_2d", {"grid=2,3", "row=1,2,3", "col=1,2,3", "c=2"}),
                 "attend: --param content: expected an integer from 0 to 1");
  expect_refused(score("learned_2d", {"grid=2,3", "row=1,2,3", "col=1,2,3"}), "attend: --param row: expected");
}

TEST_F(CliErrors, Options) {
  const auto with = [&](const Words& words) { return attend({}, words); };
  for (const char* value : {"0", "-1", "1025", "99999999999999999999", "x", "1.5", ""})
    expect_refused(with({"--threads", value}), "--threads");
  for (const char* value : {"x", "nan", "inf", "1e999", "1,2", ""}) expect_refused(with({"--scale", value}), "--scale");
  for (const char* value : {"-1", "x", "nan"}) expect_refused(with({"--softcap", value}), "--softcap");
  for (const char* value : {"1", "1,2,3", "a,b", "1,", "1.5,2"}) expect_refused(with({"--window", value}), "--window");
  for (const char* value : {"7", "-1", "1,2,3", "1,x", "9223372036854775807"})
    expect_refused(with({"--key-lengths", value}), "--key-lengths");
  for (const char* value : {"left", "none", "topleft"})
    expect_refused(with({"--causal", value}), "expected top_left or bottom_right");
  expect_refused(with({"--normalize", "softsign"}),
                 "attend: --normalize: expected one of softmax, argmax, sparsemax, entmax15, sigmoid, got 'softsign'");
  expect_refused(with({"--normalize", "sparsemax", "--param", "b=1"}), "--param b: ");
  expect_refused(with({"--param", "b=1"}), "--param b: ");
  expect_refused(with({"--param", "sink=1,2"}), "attend: --param sink: expected [4]");
  for (const char* value : {"x", "1.5", "1,2,3", "1,"}) expect_refused(with({"--first-query", value}), "--first-query");
  expect_refused(with({"--first-query", "3", "--causal", "bottom_right"}), "attend: --first-query: ");
  for (const char* value : {"3", "4", "-2", "x", "2,0", "2,x", "1.5", "2,3,4"})
    expect_refused(with({"--rotary", value}), "attend: --rotary: ");
  expect_refused(with({"--rotary-interleaved"}), "--rotary");
  expect_refused(with({"--device", "tpu"}), "expected cpu or cuda");
  expect_refused(
      with({"--device", "cuda"}),
      "expected a call that a backend takes, got one that none does: cpu: expected arrays on cpu, got arrays on cuda");
  expect_refused(with({"--dtype", "int8"}), "expected f32, f64, bf16 or f16");
  expect_refused(with({"--path", "fast"}), "expected auto or generic");
  expect_refused(with({"--reference", "--path", "generic"}), "expected --reference or --path generic, got both");
  expect_refused(with({"--mask", file("bias.npy")}), "--bias");
  expect_refused(with({"--mask", file("mask2.npy")}), "0 and 1");
  expect_refused(with({"--mask", file("mask5.npy")}), "mask");
  expect_refused(with({"--mask", file("missing.npy")}), "--mask");
  expect_refused(with({"--bias", file("mask.npy")}), "--mask");
  expect_refused(with({"--bias", file("short.npy")}), "bias");
  expect_refused(with({"--bias", file("flat.npy")}), "dimensions");
  expect_refused(with({"--query-starts", "0,6"}), "--key-starts");
  expect_refused(with({"--query-starts", "0,5", "--key-starts", "0,6"}), "--query-starts");
  expect_refused(with({"--query-starts", "0,4,2,6", "--key-starts", "0,1,2,6"}), "--query-starts");
  expect_refused(with({"--query-starts", "0,6", "--key-starts", "0,3,6"}), "--key-starts");
  expect_refused(with({"--top-k", "2"}), "--stats");
  for (const char* value : {"0", "-1", "7", "x", "99999999999"})
    expect_refused(with({"--stats", "--top-k", value}), std::string("--top-k: expected 1 to 6, got '") + value + "'");
  for (const char* value : {"2,2", "0,6", "0,0", "x", "-2,-3", "2", "9223372036854775807,2"})
    expect_refused(with({"--stats", "--grid", value}), "--grid");
  expect_refused(with({"--grid", "2,3"}), "--stats");
  for (const char* value : {"2,0", "0,4", "-1,0", "0", "x,y"})
    expect_refused(with({"--weights-head", value}), "--weights-head");
  for (const char* value : {"3:3", "4:2", "0:7", "-1:2", "2", ":", "a:b"})
    expect_refused(with({"--weights-rows", value}), "--weights-rows");
  expect_refused(with({"--unknown"}), "--unknown");
  expect_refused(with({"stray"}), "attend");
}

TEST_F(CliErrors, AbsurdResultsAreRefusedBeforeTheyAreMade) {
  const std::int64_t rows = 1000000;
  save_f4(file("long.npy"), {rows, 1}, Numbers(static_cast<std::size_t>(rows), 0));
  const std::map<std::string, std::string> all{
      {"--q", file("long.npy")}, {"--k", file("long.npy")}, {"--v", file("long.npy")}};
  expect_refused(attend(all, {"--weights"}), "weights.npy [1, 1, 1000000, 1000000]");
  expect_refused(attend(all, {"--stats", "--top-k", "1000000"}), "topk.npy");
  expect_refused(attend(all, {"--reference"}), "--reference");
}

TEST_F(CliErrors, AFullOutputIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const CliResult result = run_cli_into("/dev/full", {"list"});
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(is_one_line(result.err)) << result.err;
}

// Random arguments, many of them sensible: never a crash, and exactly one line of error.
TEST_F(CliErrors, RandomArgumentsNeverCrash) {
  const Words options = split(
      "--q --k --v --score --param --scale --softcap --normalize --bias --causal --window --key-lengths --query-starts "
      "--key-starts --first-query --rotary --rotary-interleaved --device --mask --weights --weights-head "
      "--weights-rows --stats --top-k --grid --grad --dtype --threads "
      "--path --reference --json --bogus -x -- --q= --help");
  Words values = split(
      "/dev/null dot bilinear additive cosine distance alibi t5 shaw transformer_xl quadratic gaussian learned_2d "
      "argmax top_left bottom_right f64 bf16 f16 generic 1 0 -1 2,3 0,6 0:2 1e9 1e-300 nan 99999999999999999999 "
      "m=1,2,3,4 W=1,0,0,0,1,0,0,0,1 w=1,2,3 tau=2 gamma=3 table=1,2,3,4,5,6,7,8 grid=2,3 alpha=1,2,3,4 "
      "center=0,0,1,1,2,2,3,3 a=1,2,3 = [] {} [1,2] %% \xff\xfe");
  for (const char* name : {"q.npy", "go.npy", "mask.npy", "bias.npy", "text.npy", "folder"})
    values.push_back(file(name));
  values.insert(values.end(), {"", "new\nline", std::string(3000, '9')});
  values.insert(values.end(), {"sparsemax", "entmax15", "sigmoid", "sink=1,2,3,4", "b=-1", "cuda", "2,100"});
  // Groups that fit together, so that half of the rounds get far.
  const Words groups{"--score cosine --param tau=2",
                     "--score alibi --param m=1,2,3,4",
                     "--score additive --param w=1,2,3",
                     "--score t5 --param table=1,2,3,4,5,6,7,8 --param max_distance=3",
                     "--score shaw --param a=1,2,3,4,5,6,7,8,9",
                     "--score quadratic --param grid=2,3 --param alpha=1,2,3,4 --param center=0,0,1,1,2,2,3,3",
                     "--causal top_left",
                     "--causal bottom_right",
                     "--window 2,1",
                     "--window 0,-1",
                     "--key-lengths 3,0",
                     "--query-starts 0,2,6 --key-starts 0,3,6",
                     "--stats --top-k 3",
                     "--weights",
                     "--weights-rows 1:3 --weights-head 1,2",
                     "--dtype bf16",
                     "--dtype f16",
                     "--dtype f64",
                     "--threads 3",
                     "--softcap 2 --scale 0.1",
                     "--normalize argmax",
                     "--normalize sparsemax",
                     "--normalize entmax15",
                     "--normalize sigmoid --param b=-1",
                     "--param sink=1,2,3,4",
                     "--first-query 3",
                     "--first-query 2,-1",
                     "--rotary 2,100 --rotary-interleaved",
                     "--reference",
                     "--path generic",
                     "--json",
                     "--mask " + file("mask.npy"),
                     "--bias " + file("bias.npy"),
                     "--grad " + file("go.npy")};
  std::mt19937_64 random(20240608);
  const auto pick = [&](const Words& words) { return words[random() % words.size()]; };
  int done = 0, refused = 0;
  for (int round = 0; round < 600; ++round) {
    Words words = random() % 8 == 0 ? Words{"attend"} : attend({{"--out", file("fuzz")}});
    if (random() % 20 == 0) words[0] = pick({"list", "", "attend ", "-attend"});
    for (std::size_t n = random() % 6; n > 0; --n) {
      if (round % 2 == 0) {
        const Words group = split(pick(groups));
        words.insert(words.end(), group.begin(), group.end());
        continue;
      }
      words.push_back(pick(options));
      if (random() % 8 != 0) words.push_back(pick(values));
    }
    const CliResult result = run_cli(words);
    const bool good =
        result.status == 0 ? result.err.empty() : result.status == 2 && is_one_line(result.err) && result.out.empty();
    ASSERT_TRUE(good) << testing::PrintToString(words) << "\nstatus " << result.status << "\n" << result.err;
    ++(result.status == 0 ? done : refused);
    for (const std::string& name : names_in(file("fuzz"))) EXPECT_FALSE(name.starts_with(".")) << name;
  }
  EXPECT_GT(done, 150);
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace rapt::test
