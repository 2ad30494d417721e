#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tasks/scene_run.h"

// Does sharing help? A network per task, one for all tasks without sharing, and one with shared attention, trained on
// the same scenes for the same steps.
namespace rapt::inline v1::tasks {

struct SceneComparison {
  SceneRunConfig run = scene_defaults();        // settings of all; the seed is the first one
  std::vector<std::string> references{"skip"};  // a shared network for each
  std::int64_t seeds = 3;
  std::filesystem::path directory;  // of the runs; existing ones are resumed
  int threads = 1;                  // networks that are trained at the same time
};

struct ComparedScore {
  std::string name;  // as in training::Scores
  training::Score::Form form = training::Score::Form::fraction;
  std::vector<double> values;  // one for each seed

  double mean() const;
  double deviation() const;  // of the seeds, n − 1; 0 for one
};

struct ComparedNetwork {
  std::string name;
  // Of all the networks that cover the tasks.
  std::int64_t parameters = 0;
  std::int64_t multiply_adds = 0;  // of one picture
  double seconds = 0;              // of training on one thread, the mean over the seeds
  std::vector<ComparedScore> scores;
  // By how many percent the scores are better than those of the single-task networks: the mean over the tasks.
  ComparedScore gain;
};

// Called with the steps done, all steps, and what was finished last.
using ComparisonProgress = std::function<void(std::int64_t, std::int64_t, const std::string&)>;

// First the single-task networks, then the one without sharing, then those with it. Empty if stop() said so: everything
// is saved then, and the same call continues.
std::vector<ComparedNetwork> compare_scenes(const SceneComparison& comparison, const ComparisonProgress& progress,
                                            const std::function<bool()>& stop = {});

// Whether a higher number of this score is better.
bool higher_is_better(const std::string& score);

}  // namespace rapt::inline v1::tasks
