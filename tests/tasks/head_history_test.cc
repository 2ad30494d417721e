#include "tasks/head_history.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/tensors.h"
#include "tasks/assignment.h"
#include "tasks/image_run.h"
#include "tests/tensor/temporary_directory.h"

namespace rapt::tasks::test {
namespace {

using rapt::test::TemporaryDirectory;
using std::int64_t;

// Against all ways to give out the columns.
TEST(Assignment, IsTheLeastOfAll) {
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    const int64_t rows = 1 + static_cast<int64_t>(random.below(4));
    const int64_t cols = rows + static_cast<int64_t>(random.below(3));
    std::vector<double> costs(static_cast<std::size_t>(rows * cols));
    for (double& c : costs) c = round % 2 == 0 ? random.normal() : static_cast<double>(random.below(3));
    const auto total = [&](const std::vector<int64_t>& own) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r)
        sum += costs[static_cast<std::size_t>(r * cols + own[static_cast<std::size_t>(r)])];
      return sum;
    };
    const std::vector<int64_t> got = least_assignment(costs, rows, cols);
    std::vector<int64_t> order(static_cast<std::size_t>(cols));
    std::iota(order.begin(), order.end(), 0);
    double least = 1e300;
    do least = std::min(least, total(order));
    while (std::next_permutation(order.begin(), order.end()));
    EXPECT_NEAR(total(got), least, 1e-12);
    std::vector<int64_t> sorted = got;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
  }
  EXPECT_TRUE(least_assignment({}, 0, 0).empty());
  EXPECT_THROW(least_assignment({1, 2}, 2, 1), Error);
  EXPECT_THROW(least_assignment({1, std::nan("")}, 1, 2), Error);
}

HeadPlaces places_at(const std::vector<double>& centers) {
  HeadPlaces places;
  places.layers = 1;
  places.heads = static_cast<int64_t>(centers.size()) / 2;
  places.centers = centers;
  for (int64_t h = 0; h < places.heads; ++h)
    for (const double x : {4.0, 1.0, 1.0, 2.0}) places.covariances.push_back(x);
  return places;
}

TEST(HeadStatistics, OfAPerfectKernel) {
  std::vector<double> centers;
  for (const int n : {4, 0, 8, 2, 6, 1, 7, 3, 5}) {
    centers.push_back(n / 3 - 1);
    centers.push_back(n % 3 - 1);
  }
  const HeadPlaces places = places_at(centers);
  const GridFit fit = fit_to_grid(places, 0);
  EXPECT_EQ(fit.side, 3);
  EXPECT_EQ(fit.distance, 0);
  EXPECT_EQ(fit.pixels, 9);
  EXPECT_GT(fit.random_distance, 0.2);
  EXPECT_NEAR(mean_distance(places, 0), (4 + 4 * std::sqrt(2.0)) / 9, 1e-12);
  EXPECT_NEAR(mean_spread(places, 0), std::sqrt(3.0), 1e-12);
}

TEST(HeadStatistics, OfHeadsAtOnePlace) {
  // Four heads upon each other at the query; the kernel's taps are (−1|0, −1|0).
  const GridFit fit = fit_to_grid(places_at(std::vector<double>(8, 0.0)), 0);
  EXPECT_EQ(fit.side, 2);
  EXPECT_NEAR(fit.distance, (0 + 1 + 1 + std::sqrt(2.0)) / 4, 1e-12);
  EXPECT_EQ(fit.pixels, 1);
  // A fifth head is free.
  EXPECT_NEAR(fit_to_grid(places_at({0, 0, -1, 0, 0, -1, -1, -1, 50, 50}), 0).distance, 0, 1e-12);
}

models::ImageClassifier model_of(models::Encoding encoding) {
  models::ImageModelConfig config;
  config.attention.encoding = encoding;
  config.attention.patch = 1;
  config.attention.layers = 2;
  config.attention.heads = 3;
  config.attention.width = 6;
  config.attention.inner = 4;
  return {config, {5, 6, 1, 2}};
}

std::vector<float> values_of(const models::ImageClassifier& model) {
  std::vector<float> values(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialize(values.data(), 4);
  return values;
}

float* numbers(const models::ImageClassifier& model, std::vector<float>& values, int64_t layer, const char* name) {
  return values.data() + model.parameters()[model.attention()->attention(layer).score().parameter(name)].offset;
}

TEST(HeadPlacesOfParameters, Quadratic) {
  const models::ImageClassifier model = model_of(models::Encoding::quadratic);
  std::vector<float> values = values_of(model);
  numbers(model, values, 1, "center")[4] = 1.5F;
  numbers(model, values, 1, "center")[5] = -2;
  numbers(model, values, 1, "alpha")[2] = 0.25F;
  numbers(model, values, 1, "alpha")[1] = -1;  // looks away: as wide as the image
  const HeadPlaces places = places_of_parameters(model, values.data());
  ASSERT_EQ(places.centers.size(), 12U);
  EXPECT_EQ(places.centers[10], 1.5);
  EXPECT_EQ(places.centers[11], -2);
  const double* square = places.covariances.data() + 4 * 5;
  EXPECT_NEAR(square[0], 2, 1e-12);  // 1/(2α)
  EXPECT_NEAR(square[1], 0, 1e-12);
  EXPECT_NEAR(square[3], 2, 1e-12);
  EXPECT_NEAR(places.covariances[4 * 4], 36, 1e-9);
}

// Σ ΓᵀΓ = I.
TEST(HeadPlacesOfParameters, Gaussian) {
  const models::ImageClassifier model = model_of(models::Encoding::gaussian);
  std::vector<float> values = values_of(model);
  const float gamma[4] = {1.25F, -0.5F, 0.75F, 2.0F};
  std::copy_n(gamma, 4, numbers(model, values, 0, "gamma") + 4);
  const HeadPlaces places = places_of_parameters(model, values.data());
  const double* s = places.covariances.data() + 4;
  const double a = 1.25 * 1.25 + 0.75 * 0.75, b = -1.25 * 0.5 + 0.75 * 2, c = 0.25 + 4;
  EXPECT_NEAR(s[0] * a + s[1] * b, 1, 1e-9);
  EXPECT_NEAR(s[0] * b + s[1] * c, 0, 1e-9);
  EXPECT_NEAR(s[2] * b + s[3] * c, 1, 1e-9);
  EXPECT_EQ(s[1], s[2]);
}

// Sharp heads: what the weights say is what the parameters say, but for the border.
TEST(HeadPlacesOfAttention, AgreeWithSharpParameters) {
  const models::ImageClassifier model = model_of(models::Encoding::quadratic);
  std::vector<float> values = values_of(model);
  for (int64_t l = 0; l < 2; ++l) {
    std::fill_n(numbers(model, values, l, "center"), 6, 0.0F);
    std::fill_n(numbers(model, values, l, "alpha"), 3, 30.0F);
  }
  numbers(model, values, 0, "center")[2] = 1;  // head 2 of layer 1 looks one row down
  Random random(3);
  std::vector<float> images;
  for (const double x : support::random_numbers(random, 30)) images.push_back(static_cast<float>(x));
  const HeadPlaces places = places_of_attention(model, values.data(), images.data(), 1);
  EXPECT_NEAR(places.centers[0], 0, 1e-6);
  // Four of the five rows have one below them; the last stays where it is.
  EXPECT_NEAR(places.centers[2], 0.8, 1e-6);
  EXPECT_NEAR(places.centers[3], 0, 1e-6);
  EXPECT_NEAR(places.covariances[4], 0.16, 1e-6);
  EXPECT_NEAR(places.covariances[7], 0, 1e-6);
  EXPECT_THROW(places_of_parameters(model_of(models::Encoding::absolute), values.data()), Error);
}

class HeadHistoryFiles : public testing::Test {
 protected:
  void SetUp() override {
    ImageRunConfig config = image_defaults("digits", models::ImageModelKind::attention);
    config.model.attention.layers = 1;
    config.model.attention.heads = 1;
    config.model.attention.encoding = models::Encoding::learned_2d;
    config.sizes = {8, 8, 1, 10};
    write_config(directory_.path(), config);
  }
  void write(const std::string& text) const { std::ofstream(directory_ / "metrics.jsonl") << text; }
  std::string error() const {
    try {
      read_head_history(directory_.path());
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  TemporaryDirectory directory_;
};

TEST_F(HeadHistoryFiles, AreReadAndChecked) {
  const std::string good = R"({"epoch":1,"centers":[[[0.5,-1]]],"covariances":[[[[1,0],[0,2]]]]})";
  EXPECT_NE(error().find("expected metrics.jsonl, got none: the run has not finished its first epoch"),
            std::string::npos);
  write(good + "\n" + good + "\n");
  const HeadHistory history = read_head_history(directory_.path());
  EXPECT_EQ(history.epochs.size(), 2U);
  EXPECT_EQ(history.first_epoch, 1);
  EXPECT_EQ(history.last().centers, (std::vector<double>{0.5, -1}));
  EXPECT_EQ(history.last().covariances, (std::vector<double>{1, 0, 0, 2}));
  for (const auto& [text, part] :
       {std::pair{std::string("x"), "line 1"},
        {good + "\n{}", "line 2: expected 'centers', got none"},
        {std::string(R"({"centers":[[[0.5]]],"covariances":[[[[1,0],[0,2]]]]})"), "sizes"},
        {std::string(R"({"centers":[[[0.5,"a"]]],"covariances":[[[[1,0],[0,2]]]]})"), "expected a number"},
        {std::string(""), "expected at least one epoch, got none"}}) {
    write(text);
    EXPECT_NE(error().find(part), std::string::npos) << error();
  }
}

}  // namespace
}  // namespace rapt::tasks::test
