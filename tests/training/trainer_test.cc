#include "training/trainer.h"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "rapt/error.h"
#include "tests/tensor/temporary_directory.h"
#include "tests/training/tiny_run.h"
#include "training/not_finite.h"

namespace rapt::training::test {
namespace {

using rapt::test::TemporaryDirectory;

TEST(TrainerRuns, LearnToReverse) {
  for (models::ModelConfig config : {tiny_seq2seq(), tiny_transformer()}) {
    config.seq2seq.hidden = config.transformer.width = 24;
    config.transformer.dropout = 0;
    TinyRun run(config);
    run.examples = 300;
    run.options.epochs = 40;
    run.options.label_smoothing = 0;
    const TemporaryDirectory directory;
    const auto trainer = run.trainer(directory.path());
    std::vector<EpochReport> reports;
    Observer observer;
    observer.on_epoch = [&](const EpochReport& r) { reports.push_back(r); };
    EXPECT_EQ(trainer->run(observer), Trainer::End::finished);
    ASSERT_EQ(reports.size(), 40U);
    EXPECT_LT(reports.back().loss, 0.5 * reports.front().loss);
    EXPECT_GT(trainer->progress().best_score, 0.8);
    // The weights that are left are the best ones.
    const Validation check =
        validate({*run.model, trainer->values().data()}, questions_of(reversed_strings(20, 2, run.longest)), {}, 1);
    EXPECT_EQ(check.scores.exact_match(), trainer->progress().best_score);
    EXPECT_EQ(check.loss, trainer->progress().best_loss);
  }
}

TEST(TrainerRuns, AreReproducible) {
  for (const models::ModelConfig& config : {tiny_seq2seq(), tiny_transformer()}) {
    TinyRun run(config);
    const TemporaryDirectory one;
    const TemporaryDirectory two;
    const Bits first = run.train(one.path());
    EXPECT_EQ(run.train(two.path()), first);
    expect_same_run(two.path(), one.path(), "again");
    EXPECT_EQ(timeless_metrics(one.path()).size(), 3U);
    run.options.seed = 2;
    const TemporaryDirectory other;
    EXPECT_NE(run.train(other.path()), first);
  }
}

TEST(TrainerThreads, ChangeNoBit) {
  for (const models::ModelConfig& config : {tiny_seq2seq(), tiny_transformer()})
    for (const Optimizer optimizer : {Optimizer::adam, Optimizer::sgd}) {
      TinyRun run(config);
      run.options.optimizer = optimizer;
      run.options.epochs = 2;
      run.options.parts = 4;
      const TemporaryDirectory alone;
      const Bits first = run.train(alone.path());
      for (const int threads : {2, 3, 5}) {
        run.threads = threads;
        const TemporaryDirectory directory;
        EXPECT_EQ(run.train(directory.path()), first) << threads;
        expect_same_run(directory.path(), alone.path(), std::to_string(threads) + " threads");
      }
      run.threads = 1;
    }
}

// A batch in parts is the same batch: gradients are sums over all of it, however it is split.
TEST(TrainerRuns, PartsChangeOnlyRounding) {
  TinyRun run;
  run.config.seq2seq.dropout = 0;
  run.model = std::make_shared<SequenceModel>(run.config, run.model->sizes());
  run.options.epochs = 1;
  run.options.optimizer = Optimizer::sgd;
  std::vector<Bits> results;
  for (const std::int64_t parts : {1, 3, 16, 40}) {
    run.options.parts = parts;
    const TemporaryDirectory directory;
    results.push_back(run.train(directory.path()));
    for (std::size_t n = 0; n < results[0].size(); ++n) ASSERT_NEAR(results.back()[n], results[0][n], 1e-5) << parts;
  }
}

TEST(TrainerRuns, ReportEveryStepAndEpoch) {
  const TinyRun run;
  const TemporaryDirectory directory;
  const auto trainer = run.trainer(directory.path());
  std::vector<StepReport> steps;
  std::vector<EpochReport> epochs;
  Bits best;
  Observer observer;
  observer.on_step = [&](const StepReport& r) { steps.push_back(r); };
  observer.on_epoch = [&](const EpochReport& r) {
    epochs.push_back(r);
    if (r.best) best = trainer->values();
  };
  trainer->run(observer);
  ASSERT_EQ(steps.size(), 12U);  // 50 examples in batches of 16
  for (std::size_t n = 0; n < steps.size(); ++n) {
    EXPECT_EQ(steps[n].epoch, static_cast<std::int64_t>(n / 4) + 1);
    EXPECT_EQ(steps[n].batch, static_cast<std::int64_t>(n % 4) + 1);
    EXPECT_EQ(steps[n].batches, 4);
  }
  ASSERT_EQ(epochs.size(), 3U);
  // The best epoch by the rule: more exact matches, then less loss.
  double score = -1;
  double loss = 0;
  for (std::size_t n = 0; n < 3; ++n) {
    const EpochReport& r = epochs[n];
    EXPECT_EQ(r.epoch, static_cast<std::int64_t>(n) + 1);
    EXPECT_EQ(r.step, static_cast<std::int64_t>(4 * n + 4));
    EXPECT_EQ(r.loss, steps[4 * n + 3].loss);
    EXPECT_EQ(r.rate, rate_at(run.options, r.step, 12));
    const double now = r.valid->get("exact_match");
    EXPECT_EQ(r.best, now > score || (now == score && r.valid->loss < loss)) << n;
    if (!r.best) continue;
    score = now;
    loss = r.valid->loss;
  }
  EXPECT_EQ(trainer->values(), best);
  Bits stored(best.size());
  load_weights(directory / "model.safetensors", run.model->parameters(), stored.data());
  EXPECT_EQ(stored, best);
}

// Equal batches and weights that stay: only the places that are dropped tell one step from the next.
TEST(TrainerRuns, DropoutChangesFromStepToStep) {
  TinyRun run;
  run.options.rate = 0;
  const TemporaryDirectory directory;
  const std::vector<EncodedExample> equal(48, {{4, 5, 6}, {6, 5, 4}});
  Trainer trainer(run.objective(equal, {}), run.options, directory.path(), 1);
  std::vector<double> losses;  // of each step; a report has the mean of its epoch so far
  double before = 0;
  Observer observer;
  observer.on_step = [&](const StepReport& r) {
    const double sum = r.loss * static_cast<double>(r.batch);
    losses.push_back(r.batch == 1 ? sum : sum - before);
    before = sum;
  };
  trainer.run(observer);
  ASSERT_EQ(losses.size(), 9U);
  for (std::size_t n = 0; n < 9; ++n)
    for (std::size_t m = 0; m < n; ++m) EXPECT_GT(std::abs(losses[n] - losses[m]), 1e-6) << m << " and " << n;
}

// Without validation the loss of training decides.
TEST(TrainerRuns, WithoutValidation) {
  const TinyRun run;
  const TemporaryDirectory directory;
  Trainer trainer(run.objective(reversed_strings(50, 1), {}), run.options, directory.path(), 1);
  std::vector<EpochReport> reports;
  Observer observer;
  observer.on_epoch = [&](const EpochReport& r) { reports.push_back(r); };
  EXPECT_EQ(trainer.run(observer), Trainer::End::finished);
  double least = 1e300;
  for (const EpochReport& r : reports) {
    EXPECT_FALSE(r.valid);
    EXPECT_EQ(r.best, r.loss < least);
    least = std::min(least, r.loss);
  }
}

// The weights that are validated and kept are the mean ones.
TEST(TrainerRuns, KeepTheAverageOfTheWeights) {
  TinyRun run;
  const TemporaryDirectory plain;
  const Bits last = run.train(plain.path());
  run.options.average = 0.9;
  const TemporaryDirectory directory;
  const auto trainer = run.trainer(directory.path());
  std::vector<EpochReport> reports;
  Observer observer;
  observer.on_epoch = [&](const EpochReport& r) { reports.push_back(r); };
  trainer->run(observer);
  EXPECT_NE(trainer->values(), last);
  const Validation check =
      validate({*run.model, trainer->values().data()}, questions_of(reversed_strings(20, 2, run.longest)), {}, 1);
  EXPECT_EQ(check.loss, trainer->progress().best_loss);
  EXPECT_EQ(reports[static_cast<std::size_t>(trainer->progress().best_epoch) - 1].valid->loss, check.loss);
}

TEST(TrainerRuns, PatienceEndsThem) {
  TinyRun run;
  run.options.rate = 0;  // nothing ever gets better
  run.options.epochs = 20;
  run.options.patience = 3;
  const TemporaryDirectory directory;
  const auto trainer = run.trainer(directory.path());
  EXPECT_EQ(trainer->run({}), Trainer::End::finished);
  EXPECT_EQ(trainer->progress().epoch, 4);
  EXPECT_EQ(trainer->progress().best_epoch, 1);
  EXPECT_TRUE(trainer->progress().finished);
  // A run that has stopped stays stopped; with more patience it continues.
  const auto again = run.trainer(directory.path());
  again->resume();
  EXPECT_EQ(again->run({}), Trainer::End::finished);
  EXPECT_EQ(again->progress().epoch, 4);
  EXPECT_EQ(timeless_metrics(directory.path()).size(), 4U);
  run.options.patience = 5;
  const auto patient = run.trainer(directory.path());
  patient->resume();
  patient->run({});
  EXPECT_EQ(patient->progress().epoch, 6);
}

// More epochs for a run that has ended: the first ones are kept.
TEST(TrainerRuns, GoOnForMoreEpochs) {
  TinyRun run;
  run.options.schedule = Schedule::constant;
  run.options.epochs = 4;
  const TemporaryDirectory at_once;
  const Bits expected = run.train(at_once.path());
  run.options.epochs = 2;
  const TemporaryDirectory directory;
  run.train(directory.path());
  run.options.epochs = 4;
  const auto trainer = run.trainer(directory.path());
  trainer->resume();
  EXPECT_EQ(finish(*trainer), expected);
  expect_same_run(directory.path(), at_once.path(), "two and two epochs");
}

TEST(TrainerRuns, LossThatIsNoNumberIsReported) {
  TinyRun run;
  run.options.epochs = 2;
  const TemporaryDirectory directory;
  run.train(directory.path());
  const std::string state = bytes_of(directory / "state.safetensors");
  run.options.epochs = 4;
  run.options.rate = 1e38;
  run.options.schedule = Schedule::constant;
  const auto trainer = run.trainer(directory.path());
  trainer->resume();
  const std::string message = error_of([&] { trainer->run({}); });
  EXPECT_NE(message.find(": expected a finite loss and gradient, got "), std::string::npos) << message;
  EXPECT_EQ(bytes_of(directory / "state.safetensors"), state);
  // In the last step of an epoch the validation sees it first.
  run.options.batch = 64;
  run.options.warmup = 0;
  const TemporaryDirectory other;
  const auto sudden = run.trainer(other.path());
  EXPECT_NE(error_of([&] { sudden->run({}); }).find("train: step 1: expected a finite loss"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(other / "model.safetensors"));
  EXPECT_THROW(run.trainer(other.path())->run({}), NotFinite);
}

// The last step of all, and nothing to validate on: no loss follows that could show it.
TEST(TrainerRuns, WeightsThatAreNoNumbersAreReported) {
  TinyRun run;
  run.options.epochs = 1;
  run.options.batch = 64;
  run.options.warmup = 0;
  run.options.schedule = Schedule::constant;
  run.options.optimizer = Optimizer::adamw;
  run.options.rate = 1e38;
  run.options.weight_decay = 1e6;
  const TemporaryDirectory directory;
  Trainer trainer(run.objective(reversed_strings(20, 1), {}), run.options, directory.path(), 1);
  const std::string message = error_of([&] { trainer.run({}); });
  EXPECT_NE(message.find("step 1: expected finite weights, got"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(directory / "model.safetensors"));
}

}  // namespace
}  // namespace rapt::training::test
