#include <gtest/gtest.h>

#include "rapt/threads.h"
#include "tasks/run.h"
#include "tests/tensor/temporary_directory.h"
#include "training/trainer.h"

namespace rapt::test {
namespace {

// The share of held-out strings that a run with the task's own settings gets right.
double exact_match(const std::string& directory, const char* attention) {
  tasks::RunConfig config = tasks::task_defaults("reverse");
  config.model.seq2seq.attention = attention;
  const tasks::TaskData data = tasks::load_data(config.data);
  tasks::complete(config, data);
  const models::SequenceModel model(config.model, config.sizes);
  training::Trainer trainer(
      model, config.training,
      training::Batches(tasks::encode(config, data.train), config.training.batch, config.training.seed),
      tasks::questions(config, data.valid), directory, default_threads());
  trainer.run({});
  return training::validate(model, trainer.values().data(), tasks::questions(config, data.test), {}, default_threads())
      .scores.exact_match();
}

// The contrast of document 001: 82.1 % without attention, 99.9 % with dot products.
TEST(ReverseTaskSlow, AttentionSolvesWhatAFixedEncodingCannot) {
  const TemporaryDirectory dir;
  const double without = exact_match(dir.path().string(), "none");
  const double with = exact_match(dir.path().string(), "dot");
  EXPECT_LT(without, 0.95);
  EXPECT_GT(without, 0.5);
  EXPECT_GE(with, 0.999);
}

}  // namespace
}  // namespace rapt::test
