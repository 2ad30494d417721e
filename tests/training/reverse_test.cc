#include <gtest/gtest.h>

#include "rapt/threads.h"
#include "tasks/experiment.h"
#include "tests/tensor/temporary_directory.h"
#include "training/trainer.h"

namespace rapt::test {
namespace {

// The share of held-out strings that a run with the task's own settings gets right.
double exact_match(const std::string& directory, const char* attention) {
  const auto run = tasks::start_experiment("reverse", {{}, {{"attention", attention}}});
  training::Trainer trainer(run->objective(), run->training(), directory, default_threads());
  trainer.run({});
  return run->score(tasks::Split::test, trainer.values().data(), default_threads(), {})->get("exact_match");
}

// The contrast of the course's exercise on reversing strings: 82.1 % without attention, 99.9 % with dot products.
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
