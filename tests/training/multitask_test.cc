#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tensor/random.h"
#include "tests/tensor/temporary_directory.h"
#include "tests/training/tiny_run.h"
#include "training/multitask_objective.h"

namespace rapt::training::test {
namespace {

using models::PixelTask;
using rapt::test::TemporaryDirectory;
using std::int64_t;

constexpr int64_t kClasses = 3;

TEST(PixelScores, MeanIou) {
  PixelScores scores(kClasses);
  // Class 0: 2 of 3; class 1: 1 of 3; class 2 never occurs.
  for (const auto& [predicted, truth] : {std::pair{0, 0}, {0, 0}, {1, 0}, {1, 1}, {1, 1}, {0, 1}})
    scores.add_class(predicted, truth);
  EXPECT_NEAR(scores.mean_iou(), (2.0 / 4 + 2.0 / 4) / 2, 1e-15);
  scores.add_class(2, 0);
  EXPECT_NEAR(scores.mean_iou(), (2.0 / 5 + 2.0 / 4 + 0) / 3, 1e-15);
}

TEST(PixelScores, ErrorsAndAngles) {
  PixelScores scores(kClasses);
  scores.add_depth(3, 5);
  scores.add_depth(5, 4);
  EXPECT_NEAR(scores.depth_rmse(), std::sqrt((4 + 1) / 2.0), 1e-15);
  const float along_x[]{3, 0, 0};
  const float along_y[]{0, 1, 0};
  const float between[]{1, 1, 0};
  scores.add_normal(along_x, along_y);
  scores.add_normal(between, along_y);
  EXPECT_NEAR(scores.mean_angle(), (90 + 45) / 2.0, 1e-6);
  scores.add_reshading(0.5, 0.25);
  scores.add_reshading(0.5, 1);
  EXPECT_NEAR(scores.reshading_error(), 0.375, 1e-15);
}

TEST(PixelScores, BestF1OverThresholds) {
  PixelScores scores(kClasses);
  for (const auto& [probability, truth] :
       {std::pair{0.9, true}, {0.8, true}, {0.7, false}, {0.6, true}, {0.2, false}, {0.1, true}})
    scores.add_edge(probability, truth);
  // Best is to call all six edges, which finds all four; above 0.5 it would be 2·3/(4 + 4).
  EXPECT_NEAR(scores.edge_f1(), 2 * 4 / (4.0 + 6), 1e-15);
  for (int n = 0; n < 6; ++n) scores.add_edge(0.1, false);
  EXPECT_NEAR(scores.edge_f1(), 2 * 3 / (4.0 + 4), 1e-15);
  EXPECT_EQ(PixelScores(kClasses).edge_f1(), 0);
}

TEST(PixelScores, MergedPartsEqualTheWhole) {
  Random random(1);
  PixelScores whole(kClasses);
  std::vector<PixelScores> parts(3, PixelScores(kClasses));
  for (int n = 0; n < 90; ++n) {
    const auto add = [&](PixelScores& s, Random r) {
      s.add_class(static_cast<int64_t>(r.below(3)), static_cast<int64_t>(r.below(3)));
      s.add_depth(r.uniform(), r.uniform());
      s.add_edge(r.uniform(), r.below(2) == 0);
      s.add_reshading(r.uniform(), r.uniform());
    };
    const Random own(7, n);
    add(whole, own);
    add(parts[static_cast<std::size_t>(n % 3)], own);
  }
  parts[0].merge(parts[1]);
  parts[0].merge(parts[2]);
  EXPECT_EQ(parts[0].mean_iou(), whole.mean_iou());
  EXPECT_EQ(parts[0].edge_f1(), whole.edge_f1());
  EXPECT_NEAR(parts[0].depth_rmse(), whole.depth_rmse(), 1e-14);
  EXPECT_NEAR(parts[0].reshading_error(), whole.reshading_error(), 1e-14);
}

TEST(PixelScores, NamesAndGoal) {
  PixelScores scores(kClasses);
  scores.add_class(1, 1);
  scores.add_depth(1, 2);
  const std::vector<PixelTask> tasks{PixelTask::segmentation, PixelTask::depth};
  const Scores named = scores.named(tasks);
  ASSERT_EQ(named.list.size(), 2U);
  EXPECT_EQ(named.get("segmentation_miou"), 1);
  EXPECT_EQ(named.get("depth_rmse"), 1);
  EXPECT_NEAR(named.goal, (1 + 0.5) / 2, 1e-15);
}

// Pictures of one bright square, whose position is the ground truth of all tasks.
PixelExamples squares(int64_t count, std::uint64_t seed) {
  PixelExamples e;
  e.count = count;
  e.size = 8;
  Random random(seed);
  for (int64_t n = 0; n < count; ++n) {
    const auto top = static_cast<int64_t>(random.below(5));
    const auto left = static_cast<int64_t>(random.below(5));
    for (int64_t r = 0; r < 8; ++r)
      for (int64_t c = 0; c < 8; ++c) {
        const bool in = r >= top && r < top + 4 && c >= left && c < left + 4;
        for (int k = 0; k < 3; ++k) e.rgb.push_back(static_cast<float>((in ? 0.8 : 0.2) + 0.1 * random.uniform()));
        e.segmentation.push_back(in ? 2 : 0);
        e.depth.push_back(in ? 4.0F : r < 2 ? std::numeric_limits<float>::quiet_NaN() : 9.0F);
        for (int k = 0; k < 3; ++k) e.normals.push_back(k == (in ? 0 : 2) && (in || r >= 2) ? 1.0F : 0.0F);
        e.edges.push_back(r == top && in ? 1 : 0);
        e.reshading.push_back(in ? 0.9F : 0.1F);
      }
  }
  return e;
}

struct SquaresRun {
  PixelExamples train = squares(24, 1);
  PixelExamples valid = squares(20, 2);
  models::MultitaskNetwork network;
  TrainOptions options;

  explicit SquaresRun(models::Sharing sharing) : network(config(sharing), 8, kClasses) {
    options.epochs = 3;
    options.batch = 7;  // parts of different sizes, the last batch smaller
    options.rate = 1e-2;
    options.parts = 4;
  }
  static models::MultitaskConfig config(models::Sharing sharing) {
    models::MultitaskConfig c;
    c.sharing = sharing;
    c.width = 8;
    c.inner = 16;
    c.stages = 2;
    c.dropout = 0.1;
    return c;
  }
  std::shared_ptr<Objective> objective() const {
    return std::make_shared<MultitaskObjective>(network, train, valid, options.batch, options.seed);
  }
  Bits run(const std::filesystem::path& directory, int threads) const {
    Trainer trainer(objective(), options, directory, threads);
    trainer.run({});
    return trainer.values();
  }
};

TEST(MultitaskThreads, ChangeNoBit) {
  for (const models::Sharing sharing : {models::Sharing::none, models::Sharing::shared}) {
    const SquaresRun run(sharing);
    const TemporaryDirectory first;
    const Bits expected = run.run(first.path(), 1);
    for (const int threads : {2, 3, 5}) {
      const TemporaryDirectory directory;
      EXPECT_EQ(run.run(directory.path(), threads), expected) << threads;
      expect_same_run(directory.path(), first.path(), std::to_string(threads));
    }
  }
}

TEST(MultitaskRun, ResumesBitForBit) {
  const SquaresRun run(models::Sharing::shared);
  const TemporaryDirectory undisturbed;
  const Bits expected = run.run(undisturbed.path(), 2);
  for (const int k : {1, 3, 5}) {
    const TemporaryDirectory directory;
    int steps = 0;
    for (;;) {
      Trainer trainer(run.objective(), run.options, directory.path(), 1);
      if (std::filesystem::exists(directory / "state.safetensors")) trainer.resume();
      Observer observer;
      observer.stop = [&] { return ++steps % k == 0; };
      if (trainer.run(observer) != Trainer::End::finished) continue;
      EXPECT_EQ(trainer.values(), expected) << "every " << k;
      break;
    }
    EXPECT_EQ(steps, 3 * 4);
    expect_same_run(directory.path(), undisturbed.path(), "every " + std::to_string(k));
  }
}

TEST(MultitaskRun, LearnsAllTasks) {
  for (const models::Sharing sharing : {models::Sharing::none, models::Sharing::shared}) {
    SquaresRun run(sharing);
    run.options.epochs = 30;
    run.options.schedule = Schedule::cosine;
    const TemporaryDirectory directory;
    const Bits values = run.run(directory.path(), 2);
    const BinaryWeights edges = MultitaskObjective::edge_weights(run.train);
    const Scores scores = score(run.network, values.data(), run.valid, edges, 2);
    EXPECT_GT(scores.get("segmentation_miou"), 0.9);
    EXPECT_LT(scores.get("depth_rmse"), 1);
    EXPECT_LT(scores.get("normals_angle"), 10);
    EXPECT_GT(scores.get("edges_f1"), 0.8);
    EXPECT_LT(scores.get("reshading_l1"), 0.1);
    // A single picture gives the same, in the units of the ground truth.
    const auto predicted = predict(run.network, values.data(), run.valid, 3);
    ASSERT_EQ(predicted.size(), 5U);
    double right = 0;
    double wrong_depth = 0;
    for (std::size_t p = 0; p < 64; ++p) {
      right += predicted[0][p] == static_cast<float>(run.valid.segmentation[3 * 64 + p]) ? 1 : 0;
      if (const float depth = run.valid.depth[3 * 64 + p]; !std::isnan(depth))
        wrong_depth = std::max(wrong_depth, std::abs(static_cast<double>(predicted[1][p]) - depth));
      EXPECT_NEAR(std::hypot(predicted[2][3 * p], predicted[2][3 * p + 1], predicted[2][3 * p + 2]), 1, 1e-5);
      EXPECT_GE(predicted[3][p], 0);
      EXPECT_LE(predicted[3][p], 1);
    }
    EXPECT_GT(right, 58);
    EXPECT_LT(wrong_depth, 6);
  }
}

TEST(MultitaskRun, EdgesCountAsMuchAsAllElse) {
  const PixelExamples e = squares(5, 3);
  const BinaryWeights w = MultitaskObjective::edge_weights(e);
  double ones = 0;
  for (const std::uint8_t edge : e.edges) ones += edge;
  EXPECT_NEAR(w.one * ones, w.zero * (5 * 64 - ones), 1e-9);
  EXPECT_NEAR(w.one * ones + w.zero * (5 * 64 - ones), 5 * 64, 1e-9);
  PixelExamples none = e;
  std::fill(none.edges.begin(), none.edges.end(), std::uint8_t{0});
  EXPECT_EQ(MultitaskObjective::edge_weights(none).one, 1);
}

TEST(MultitaskRun, BadInputIsAnError) {
  const SquaresRun run(models::Sharing::none);
  const std::vector<float> values(static_cast<std::size_t>(run.network.parameters().size()));
  EXPECT_THROW(predict(run.network, values.data(), run.valid, 20), Error);
  EXPECT_THROW(predict(run.network, values.data(), run.valid, -1), Error);
  const PixelExamples nothing;
  EXPECT_THROW(MultitaskObjective(run.network, nothing, run.valid, 4, 1), Error);
}

}  // namespace
}  // namespace rapt::training::test
