// `rapt attend --device cuda` agrees with the CPU, and `rapt list` names the device. Without a GPU both say so.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "rapt/device.h"
#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

using Words = std::vector<std::string>;

bool has_gpu() { return device_count(Device::Kind::cuda) > 0; }

class CliDevice : public testing::Test {
 protected:
  static constexpr std::int64_t kHeads = 2, kQueries = 70, kKeys = 90, kDim = 16;

  std::string file(const std::string& name) const { return directory_ / name; }

  void SetUp() override {
    save("q", {1, kHeads, kQueries, kDim}, 1);
    save("k", {1, kHeads, kKeys, kDim}, 2);
    save("v", {1, kHeads, kKeys, kDim}, 3);
    save("grad", {1, kHeads, kQueries, kDim}, 4);
    save("m", {kHeads}, 5);
    save("w", {kDim}, 7);
    save("bias", {1, kHeads, kQueries, kKeys}, 6);
    save_bool(file("mask.npy"), {1, 1, kQueries, kKeys}, Numbers(kQueries * kKeys, 1));
  }

  void save(const std::string& name, const Sizes& shape, std::uint64_t seed) const {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    save_f4(file(name + ".npy"), shape, pseudo_random(count, seed));
  }

  CliResult attend(const Words& more, const std::string& device) const {
    Words words{"attend",         "--q",      file("q.npy"), "--k",   file("k.npy"), "--v", file("v.npy"), "--grad",
                file("grad.npy"), "--device", device,        "--out", file(device)};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  }

  // Every file that both wrote, to `tolerance` of its largest number.
  void expect_the_cpus(const Words& more, double tolerance = 1e-4) const {
    SCOPED_TRACE(testing::PrintToString(more));
    const CliResult on_cpu = attend(more, "cpu"), on_device = attend(more, "cuda");
    ASSERT_EQ(on_cpu.status, 0) << on_cpu.err;
    ASSERT_EQ(on_device.status, 0) << on_device.err;
    EXPECT_EQ(on_device.out, on_cpu.out);
    const std::vector<std::string> names = names_in(file("cpu"));
    EXPECT_GE(names.size(), 5u);
    ASSERT_EQ(names_in(file("cuda")), names);
    for (const std::string& name : names) {
      const Loaded want = load(file("cpu/" + name)), got = load(file("cuda/" + name));
      EXPECT_EQ(got.descr, want.descr) << name;
      ASSERT_EQ(got.shape, want.shape) << name;
      double largest = 1;
      for (const double x : want.values) largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
      for (std::size_t n = 0; n < want.values.size(); ++n) {
        if (got.values[n] == want.values[n]) continue;  // infinities, whose difference is NaN
        ASSERT_NEAR(got.values[n], want.values[n], tolerance * largest) << name << " " << n;
      }
    }
  }

  TemporaryDirectory directory_;
};

TEST_F(CliDevice, GivesTheCpusNumbers) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  expect_the_cpus({});
  expect_the_cpus({"--score", "alibi", "--param", "m=" + file("m.npy"), "--causal", "bottom_right"});
  expect_the_cpus({"--bias", file("bias.npy"), "--mask", file("mask.npy"), "--softcap", "3", "--weights", "--stats"});
  expect_the_cpus({"--score", "additive", "--param", "w=" + file("w.npy"), "--window", "20,4", "--first-query", "3"});
  expect_the_cpus({"--normalize", "sparsemax", "--key-lengths", "77"});
  expect_the_cpus({"--dtype", "bf16", "--causal", "top_left"}, 2e-2);
}

TEST_F(CliDevice, ComputesFormulas) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  const Words formula{"--formula", "raw*scale - m*abs(i-j)", "--visible", "j <= i + 20", "--param", "m=0.25,0.5"};
  const CliResult found = attend(formula, "cuda");
  if (found.status == 2 && found.err.find("NVRTC") != std::string::npos) GTEST_SKIP() << found.err;
  expect_the_cpus(formula);
}

TEST_F(CliDevice, IsListed) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  const CliResult list = run_cli({"list"});
  EXPECT_EQ(list.status, 0);
  EXPECT_NE(list.out.find(describe(Device{Device::Kind::cuda, 0})), std::string::npos) << list.out;
}

TEST_F(CliDevice, SaysWhatItCannotDo) {
  const CliResult wide = attend({"--dtype", "f64"}, "cuda");
  EXPECT_EQ(wide.status, 2);
  EXPECT_NE(wide.err.find(has_gpu() ? "expected f32, bf16 or f16, got f64" : "cuda"), std::string::npos) << wide.err;
  EXPECT_TRUE(names_in(file("cuda")).empty());
}

}  // namespace
}  // namespace rapt::test
