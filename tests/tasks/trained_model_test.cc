#include "rapt/trained_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "rapt/error.h"
#include "tasks/experiment.h"
#include "tests/tensor/temporary_directory.h"
#include "training/trainer.h"

namespace rapt::test {
namespace {

// A run of one epoch, as `rapt train` makes it.
void train_small(const std::string& directory, const char* attention) {
  const auto run = tasks::start_experiment("reverse", {{},
                                                       {{"attention", attention},
                                                        {"train_size", "60"},
                                                        {"valid_size", "5"},
                                                        {"test_size", "5"},
                                                        {"max_length", "5"},
                                                        {"hidden", "8"},
                                                        {"batch", "16"},
                                                        {"epochs", "1"}}});
  std::filesystem::create_directories(directory);
  run->write_config(directory);
  training::Trainer(run->objective(), run->training(), directory, 1).run({});
}

TEST(TrainedModel, AnswersAndShowsWhereItLooked) {
  const TemporaryDirectory dir;
  train_small(dir / "run", "dot");
  const TrainedModel model(dir / "run");
  const std::vector<std::string> texts{"abc", "", "dda"};
  const auto answers = model.decode(texts, {.beam = 3, .nbest = 2});
  ASSERT_EQ(answers.size(), 3U);
  ASSERT_EQ(answers[0].size(), 2U);
  EXPECT_GE(answers[0][0].score, answers[0][1].score);
  EXPECT_EQ(answers[1][0].text, "");
  EXPECT_EQ(model("dda"), model.decode(std::span(texts).subspan(2))[0][0].text);

  ASSERT_TRUE(model.has_attention());
  const AttentionMap map = model.attention("abc", answers[0][0]);
  ASSERT_EQ(map.source.size(), 3U);
  ASSERT_EQ(map.target.size(), answers[0][0].tokens.size() + 1);
  ASSERT_EQ(map.weights.size(), map.source.size() * map.target.size());
  for (std::size_t row = 0; row < map.target.size(); ++row)
    EXPECT_NEAR(map.weights[3 * row] + map.weights[3 * row + 1] + map.weights[3 * row + 2], 1, 1e-5);
  EXPECT_THROW(model("\xff"), Error);
}

TEST(TrainedModel, SeveralAnswerTogether) {
  const TemporaryDirectory dir;
  train_small(dir / "run", "dot");
  train_small(dir / "other", "additive");
  const std::filesystem::path run = dir / "run";
  const std::filesystem::path other = dir / "other";
  const TrainedModel model = TrainedModel::ensemble(std::vector{run, other});
  const std::vector<std::string> texts{"abc"};
  const Answer answer = model.decode(texts, {.beam = 3})[0][0];
  EXPECT_NE(answer.score, TrainedModel(run).decode(texts, {.beam = 3})[0][0].score);
  const AttentionMap mean = model.attention("abc", answer);
  const AttentionMap one = TrainedModel(run).attention("abc", answer);
  const AttentionMap two = TrainedModel(other).attention("abc", answer);
  for (std::size_t n = 0; n < mean.weights.size(); ++n)
    EXPECT_NEAR(mean.weights[n], (one.weights[n] + two.weights[n]) / 2, 1e-6);
  EXPECT_THROW(TrainedModel::ensemble({}), Error);
}

TEST(TrainedModel, RefusesWhatIsNoRun) {
  const TemporaryDirectory dir;
  EXPECT_THROW(TrainedModel(dir / "nowhere"), Error);
  EXPECT_THROW(TrainedModel(dir.path()), Error);
  train_small(dir / "none", "none");
  const TrainedModel model(dir / "none");
  EXPECT_FALSE(model.has_attention());
  EXPECT_THROW(model.attention("a", {}), Error);
  std::filesystem::remove(dir / "none/model.safetensors");
  EXPECT_THROW(TrainedModel(dir / "none"), Error);
}

}  // namespace
}  // namespace rapt::test
