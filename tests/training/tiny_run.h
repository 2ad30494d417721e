#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "training/sequence_objective.h"
#include "training/trainer.h"

// A small model on a small task: reversing strings.
namespace rapt::training::test {

using Bits = std::vector<float>;

std::vector<EncodedExample> reversed_strings(int count, std::uint64_t seed, int longest = 5);
std::vector<Question> questions_of(const std::vector<EncodedExample>& examples);

models::ModelConfig tiny_seq2seq();
models::ModelConfig tiny_transformer();

struct TinyRun {
  models::ModelConfig config = tiny_seq2seq();
  TrainOptions options;
  int examples = 50;
  int threads = 1;
  int longest = 5;
  std::shared_ptr<SequenceModel> model;

  explicit TinyRun(const models::ModelConfig& c = tiny_seq2seq());
  std::shared_ptr<Objective> objective(const std::vector<EncodedExample>& train,
                                       const std::vector<Question>& valid) const;
  std::unique_ptr<Trainer> trainer(const std::filesystem::path& directory,
                                   const Processes& processes = Processes()) const;
  // From the start to the end.
  Bits train(const std::filesystem::path& directory) const;
};

// Goes on until it is finished; `stop` as in Observer.
Bits finish(Trainer& trainer, std::function<bool()> stop = {});

std::string bytes_of(const std::filesystem::path& path);
// Lines without times.
std::vector<std::string> timeless_metrics(const std::filesystem::path& directory);

// Weights and metrics are those of the other directory, byte for byte.
void expect_same_run(const std::filesystem::path& got, const std::filesystem::path& want, const std::string& what);

std::string error_of(const std::function<void()>& f);

}  // namespace rapt::training::test
