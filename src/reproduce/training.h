#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "pictures/series.h"
#include "reproduce/context.h"
#include "tasks/experiment.h"
#include "training/trainer.h"

// Models that a part trains, through what `rapt train` runs.
namespace rapt::reproduce {

struct Job {
  std::string name;  // in tables; its run is runs/GROUP/NAME
  std::string task;
  std::map<std::string, std::string> options;  // as `rapt train` takes them, with underscores
};

struct Trained {
  std::string name;
  std::filesystem::path run;
  std::string command;  // that trains the same
  std::int64_t parameters = 0;
  std::int64_t best_epoch = 0;
  double seconds = 0;
  training::Scores valid, test;  // of the best weights
  std::vector<training::EpochReport> epochs;
};

// Makes the run's directory. True where an interrupted command left it there with the same settings.
bool was_begun(const tasks::Experiment& experiment, const std::filesystem::path& run);

// The first epochs of a run that was interrupted, as its metrics.jsonl has them.
std::vector<training::EpochReport> epochs_before(const std::filesystem::path& run, std::int64_t count);

// One after the other; the seed of the context is theirs too. All tasks must have validation and test data. Runs that are
// there, with the same settings, go on; Interrupted is thrown once they are saved.
std::vector<Trained> train_all(const Context& context, const std::string& group, const std::vector<Job>& jobs);

// A score over the epochs, as validated; of several models one line each.
std::vector<pictures::Series> validation_series(const std::vector<Trained>& runs, std::string_view score);
std::vector<pictures::Series> loss_series(const std::vector<Trained>& runs);

// What a model of sequences answers, and where it looked: [target + 1, source], empty without attention.
struct Answer {
  std::vector<std::string> source, target;
  std::string text;
  std::vector<float> weights;
};
Answer decode(const Trained& trained, const std::string& text);

// "12 epochs": what the model was really trained for.
std::string epochs_of(const Trained& run);

// The one of that name. Throws rapt::Error where there is none.
const Trained& find(const std::vector<Trained>& runs, std::string_view name);

}  // namespace rapt::reproduce
