#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "training/checkpoint.h"
#include "training/objective.h"
#include "training/optimizer.h"
#include "training/processes.h"

namespace rapt::inline v1::training {

struct StepReport {
  std::int64_t epoch = 0;  // from 1
  std::int64_t batch = 0;  // finished ones of this epoch
  std::int64_t batches = 0;
  double loss = 0;      // of this epoch so far
  double accuracy = 0;  // the same
  double units_per_second = 0;
};

struct EpochReport {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  double loss = 0;
  double accuracy = 0;
  double rate = 0;
  double units_per_second = 0;
  double seconds = 0;  // of training so far
  std::optional<Scores> valid;
  bool best = false;
};

// Callbacks to the caller, and whether it wants to stop.
struct Observer {
  std::function<void(const StepReport&)> on_step;
  std::function<void(const EpochReport&)> on_epoch;
  std::function<bool()> stop;
};

// Trains towards an objective in a directory: state.safetensors to go on from, model.safetensors with the best weights, and
// metrics.jsonl with a line for each epoch. All are replaced as a whole, so that none is ever half-written.
class Trainer {
 public:
  Trainer(std::shared_ptr<Objective> objective, const TrainOptions& options, std::filesystem::path directory,
          int threads, const Processes& processes = Processes());
  ~Trainer();

  // Resumes from the directory's state.
  void resume();

  enum class End { finished, stopped };
  // At the end the values are the best ones. Throws NotFinite where the loss or a weight is no longer a number, and
  // rapt::Error where another process trains in the directory.
  End run(const Observer& observer);

  // One step, with batch n of this epoch, as run() takes it. Returns what any process wanted.
  Wishes train_batch(std::int64_t n, const Wishes& own = {});

  const std::vector<float>& values() const { return values_; }
  const Progress& progress() const { return progress_; }

 private:
  struct Part;

  EpochReport finish_epoch(double rate, double units_per_second);
  void save();
  void write_metrics(const EpochReport& report);
  void reload_metrics();
  std::int64_t total_steps() const;
  // Whether all epochs are done, or patience ran out; raising either resumes a finished run.
  bool is_done() const;
  void require_finite(double number, const char* what = "a finite loss and gradient") const;

  std::shared_ptr<Objective> objective_;
  TrainOptions options_;
  std::filesystem::path directory_;
  int threads_;
  Processes processes_;
  std::vector<float> values_;
  Update update_;
  Progress progress_;
  std::vector<std::unique_ptr<Tape<float>>> tapes_;  // one for each thread
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<float*> gradients_;
  std::vector<std::string> metrics_;
};

}  // namespace rapt::inline v1::training
