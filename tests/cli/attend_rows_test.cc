#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tests/cli/attend_files.h"

namespace rapt::test {
namespace {

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

}  // namespace
}  // namespace rapt::test
