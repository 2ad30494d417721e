#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/config.h"
#include "tasks/case.h"
#include "tasks/reverse.h"
#include "tasks/vocabulary.h"
#include "training/evaluation.h"
#include "training/options.h"

// A training run: what is learned from which data by which model, in one directory.
namespace rapt::tasks {

enum class Source { reverse, cases, pairs };

struct DataConfig {
  Source source = Source::pairs;
  ReverseOptions reverse;
  CaseOptions cases;
  // For pairs: the files, and the hash of each so that a run goes on with the data it began with.
  std::string train, valid, test;
  std::uint64_t train_hash = 0;
  Units source_units = Units::characters;
  Units target_units = Units::characters;
  std::int64_t longest = 512;  // units of a side

  // What the source of a line given to `decode` is made of.
  std::vector<std::string> split_source(std::string_view text) const;
  std::string join_target(std::span<const std::string> tokens) const;
};

struct RunConfig {
  DataConfig data;
  models::ModelConfig model;
  training::TrainOptions training;
  models::Sizes sizes;
  std::vector<std::string> source_symbols, target_symbols;
};

// A task by name, with the settings that suit it; "pairs" is anybody's data. Throws for other names.
struct TaskInfo {
  std::string_view name;
  std::string_view about;
};
std::span<const TaskInfo> all_tasks();
RunConfig task_defaults(std::string_view name);

// Changes a configuration by a file of settings, or by options as text. Both throw for what they do not know.
void apply_file(RunConfig& config, const std::filesystem::path& file);
void apply_options(RunConfig& config, std::string_view verb, std::map<std::string, std::string> options);

// The training, validation and test examples. Without files of their own, pairs are split 90/5/5 by their sources.
TaskData load_data(DataConfig& data);

// Fills vocabularies and sizes from the training data.
void complete(RunConfig& config, const TaskData& data);

void write_config(const std::filesystem::path& directory, const RunConfig& config);
RunConfig read_config(const std::filesystem::path& directory);

// A model with its best weights, as a run left it. Throws where the directory does not hold one.
struct LoadedRun {
  RunConfig config;
  std::unique_ptr<models::SequenceModel> model;
  std::vector<float> values;
};
LoadedRun load_run(const std::filesystem::path& directory);

std::vector<training::EncodedExample> encode(const RunConfig& config, std::span<const Example> examples);
// Each source once, with all its targets.
std::vector<training::Question> questions(const RunConfig& config, std::span<const Example> examples);

}  // namespace rapt::tasks
