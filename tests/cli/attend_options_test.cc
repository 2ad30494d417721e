#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/naive.h"
#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

constexpr std::int64_t kHeads = 2, kKeys = 9, kDim = 4;

class CliAttendOptions : public testing::Test {
 protected:
  void SetUp() override {
    const auto numbers = [](std::int64_t count, double phase) {
      Numbers list;
      for (std::int64_t n = 0; n < count; ++n) list.push_back(3 * std::sin(1.7 * double(n) + phase));
      return list;
    };
    q_ = numbers(kHeads * kKeys * kDim, 0);
    save_f8(file("q.npy"), {kHeads, kKeys, kDim}, q_);
    save_f8(file("k.npy"), {kHeads, kKeys, kDim}, numbers(kHeads * kKeys * kDim, 1));
    save_f8(file("v.npy"), {kHeads, kKeys, kDim}, numbers(kHeads * kKeys * kDim, 2));
    save_f8(file("g.npy"), {kHeads, kKeys, kDim}, numbers(kHeads * kKeys * kDim, 3));
  }

  std::string file(const std::string& name) const { return directory_ / name; }

  CliResult run(const std::string& q, const std::string& out, std::vector<std::string> more) const {
    std::vector<std::string> words{"attend", "--q",         file(q), "--k",    file("k.npy"),
                                   "--v",    file("v.npy"), "--out", file(out)};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  }

  Numbers result(const std::string& q, std::vector<std::string> more, const std::string& name) const {
    const CliResult r = run(q, "out", std::move(more));
    EXPECT_EQ(r.status, 0) << r.err;
    return load(file("out/" + name)).values;
  }

  TemporaryDirectory directory_;
  Numbers q_;
};

TEST_F(CliAttendOptions, EveryNormalizerOfTheListRuns) {
  const CliResult list = run_cli({"list", "--json"});
  ASSERT_EQ(list.status, 0);
  const auto normalizers = nlohmann::json::parse(list.out).at("normalisers");
  EXPECT_GE(normalizers.size(), 5u);
  for (const auto& entry : normalizers) {
    const std::string name = entry.at("name");
    const Numbers weights = result("q.npy", {"--normalize", name, "--weights", "--grad", file("g.npy")}, "weights.npy");
    ASSERT_EQ(weights.size(), std::size_t(kHeads * kKeys * kKeys));
    for (std::int64_t row = 0; row < kHeads * kKeys && name != "sigmoid"; ++row) {
      double sum = 0;
      for (std::int64_t j = 0; j < kKeys; ++j) sum += weights[std::size_t(row * kKeys + j)];
      EXPECT_NEAR(sum, 1, 1e-12) << name;
    }
  }
}

TEST_F(CliAttendOptions, SparsemaxLeavesKeysOut) {
  const Numbers weights = result("q.npy", {"--normalize", "sparsemax", "--weights"}, "weights.npy");
  EXPECT_GT(std::count(weights.begin(), weights.end(), 0.0), std::ptrdiff_t(weights.size() / 2));
}

TEST_F(CliAttendOptions, OneQueryAtItsPositionIsARowOfTheWholePass) {
  const std::vector<std::string> options{"--score", "alibi", "--param", "m=0.5,0.25", "--causal", "top_left"};
  const Numbers whole = result("q.npy", options, "out.npy");
  for (const std::int64_t t : {0, 4, 8}) {
    Numbers step;
    for (std::int64_t h = 0; h < kHeads; ++h)
      for (std::int64_t d = 0; d < kDim; ++d) step.push_back(q_[std::size_t((h * kKeys + t) * kDim + d)]);
    save_f8(file("step.npy"), {kHeads, 1, kDim}, step);
    std::vector<std::string> placed = options;
    placed.insert(placed.end(), {"--first-query", std::to_string(t)});
    const Numbers out = result("step.npy", placed, "out.npy");
    for (std::int64_t h = 0; h < kHeads; ++h)
      for (std::int64_t d = 0; d < kDim; ++d)
        EXPECT_EQ(out[std::size_t(h * kDim + d)], whole[std::size_t((h * kKeys + t) * kDim + d)]) << t;
  }
}

TEST_F(CliAttendOptions, ASinkTakesWeightAndHasAGradient) {
  const Numbers plain = result("q.npy", {"--weights"}, "weights.npy");
  const std::vector<std::string> options{"--weights", "--param", "sink=1,2", "--grad", file("g.npy")};
  const Numbers weights = result("q.npy", options, "weights.npy");
  for (std::size_t n = 0; n < plain.size(); ++n) EXPECT_LT(weights[n], plain[n]);
  EXPECT_EQ(load(file("out/d_sink.npy")).values.size(), 2u);
}

TEST_F(CliAttendOptions, RotaryChangesScoresByDistanceAlone) {
  const Numbers near = result("q.npy", {"--rotary", "4"}, "out.npy");
  const Numbers shifted = result("q.npy", {"--rotary", "4", "--first-query", "3"}, "out.npy");
  const Numbers without = result("q.npy", {}, "out.npy");
  EXPECT_NE(near, without);
  EXPECT_NE(near, shifted);
}

TEST_F(CliAttendOptions, BadOnesAreRefused) {
  const auto refused = [&](std::vector<std::string> more, const std::string& text) {
    const CliResult r = run("q.npy", "none", std::move(more));
    EXPECT_EQ(r.status, 2);
    EXPECT_NE(r.err.find(text), std::string::npos) << r.err;
    EXPECT_FALSE(std::filesystem::exists(file("none")));
  };
  refused({"--normalize", "hardmax"}, "entmax15");
  refused({"--first-query", "x"}, "--first-query");
  refused({"--first-query", "1,2,3"}, "--first-query");
  refused({"--first-query", "1", "--causal", "bottom_right"}, "bottom_right");
  refused({"--normalize", "argmax", "--param", "sink=1,2"}, "sink");
  refused({"--rotary", "3"}, "--rotary");
  refused({"--rotary", "6"}, "--rotary");
  refused({"--rotary-interleaved"}, "--rotary");
  refused({"--device", "cuda"}, "expected a call that a backend takes");
}

}  // namespace
}  // namespace rapt::test
