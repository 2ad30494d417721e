#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/cli/naive.h"
#include "tests/cli/run_cli.h"

namespace rapt::test {

// `rapt attend` on arrays in a directory of its own.
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

}  // namespace rapt::test
