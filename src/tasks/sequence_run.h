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
#include "tasks/subwords.h"
#include "tasks/symbol_options.h"
#include "tasks/vocabulary.h"
#include "training/evaluation.h"
#include "training/options.h"

// A run on sequences: task, data and model, in one directory.
namespace rapt::inline v1::tasks {

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
  SymbolOptions symbols;
  // Of sides in subwords: the models that were learned, and the parts of several characters that they keep.
  LearnedSubwords source_subwords, target_subwords;
  // How many lines load_data left out as too long.
  std::int64_t skipped_lines = 0;

  // The units of a source given to `decode`, and of its target.
  std::vector<std::string> split_source(std::string_view text) const;
  std::vector<std::string> split_target(std::string_view text) const;
  std::string join_source(std::span<const std::string> tokens) const;
  std::string join_target(std::span<const std::string> tokens) const;
};

struct SequenceRunConfig {
  DataConfig data;
  models::ModelConfig model;
  training::TrainOptions training;
  models::Sizes sizes;
  std::vector<std::string> source_symbols, target_symbols;
};

// The settings that suit a task; "pairs" is a user's own data. Throws for other names.
SequenceRunConfig task_defaults(std::string_view name);

// Changes a configuration by a file of settings, or by options as text. Both throw for unknown settings.
void apply_file(SequenceRunConfig& config, const std::filesystem::path& file);
void apply_options(SequenceRunConfig& config, std::map<std::string, std::string> options);

// A resumed run: settings may repeat the run's; they change only how long it trains.
struct Settings;
void go_on(SequenceRunConfig& config, const std::string& run, const Settings& settings);

// The training, validation and test examples. Without files of their own, pairs are split 90/5/5 by their sources.
// Learns subwords from the training examples if the run has none yet.
TaskData load_data(DataConfig& data);
// The examples of another file, as this run reads its own.
std::vector<Example> load_examples(DataConfig& data, const std::string& path);

// Fills vocabularies and sizes from the training data.
void complete(SequenceRunConfig& config, const TaskData& data);

void write_config(const std::filesystem::path& directory, const SequenceRunConfig& config);
SequenceRunConfig read_config(const std::filesystem::path& directory);

// A model with its best weights, as a run left it. Throws if the directory holds none.
struct SequenceRun {
  SequenceRunConfig config;
  std::unique_ptr<models::SequenceModel> model;
  std::vector<float> values;
};
SequenceRun load_sequence_run(const std::filesystem::path& directory);

std::vector<training::EncodedExample> encode(const SequenceRunConfig& config, std::span<const Example> examples);
// Each source once, with all its targets.
std::vector<training::Question> questions(const SequenceRunConfig& config, std::span<const Example> examples);
// Answers in subwords are compared as texts: a text can be split in several ways. Outlives the configuration.
training::Canonical canonical(const SequenceRunConfig& config);

}  // namespace rapt::inline v1::tasks
