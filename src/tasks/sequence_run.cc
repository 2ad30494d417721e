#include "tasks/sequence_run.h"

#include <algorithm>

#include "rapt/error.h"
#include "tasks/experiment.h"
#include "tasks/field_text.h"
#include "tensor/files.h"

namespace rapt::inline v1::tasks {
namespace {

// Room beyond the longest training sequence, for tables of positions.
constexpr std::int64_t kSpareLength = 16;

}  // namespace

SequenceRunConfig task_defaults(std::string_view name) {
  SequenceRunConfig config;
  config.training.schedule = training::Schedule::cosine;
  if (name == "reverse") {
    config.data.source = Source::reverse;
    config.training.rate = 3e-3;
    config.model.seq2seq.dropout = 0.1;
    config.model.transformer.dropout = 0;
  } else if (name == "case") {
    config.data.source = Source::cases;
    config.training.rate = 2e-3;
    config.training.epochs = 20;
  } else if (name == "pairs") {
    config.model.seq2seq.bidirectional = true;
    config.model.seq2seq.hidden = 256;
    config.model.seq2seq.embedding = 128;
    config.model.seq2seq.dropout = 0.2;
  } else {
    throw Error("expected a task on sequences, got '" + std::string(name) + "'");
  }
  return config;
}

std::vector<std::string> DataConfig::split_source(std::string_view text) const {
  if (source == Source::cases) return split_case_source(text);
  return split(text, source == Source::pairs ? source_units : Units::characters);
}

std::string DataConfig::join_source(std::span<const std::string> tokens) const {
  return join(tokens, source == Source::pairs ? source_units : Units::characters);
}

std::string DataConfig::join_target(std::span<const std::string> tokens) const {
  return join(tokens, source == Source::pairs ? target_units : Units::characters);
}

TaskData load_data(DataConfig& data) {
  if (data.source == Source::reverse) return reverse_data(data.reverse);
  if (data.source == Source::cases) return case_data(data.cases);
  const auto read = [&](const std::string& path) {
    return read_pairs(path, data.source_units, data.target_units, data.longest).examples;
  };
  TaskData result;
  std::vector<Example> examples = read(data.train);
  std::uint64_t hash = 0;
  for (const Example& e : examples)
    hash = hash * 0x9e3779b97f4a7c15U + stable_hash(join(e.source, Units::words) + "\t" + join(e.target, Units::words));
  if (data.train_hash != 0 && data.train_hash != hash)
    throw Error(data.train +
                ": expected the examples that the run was started with, got others; restore them, or start a new run");
  data.train_hash = hash;
  if (data.valid.empty() && data.test.empty()) {
    result = split_by_hash(examples, 0.05, 0.05);
    if (result.train.empty()) result.train = examples;
    return result;
  }
  result.train = std::move(examples);
  if (!data.valid.empty()) result.valid = read(data.valid);
  if (!data.test.empty()) result.test = read(data.test);
  return result;
}

void complete(SequenceRunConfig& config, const TaskData& data) {
  config.source_symbols = Vocabulary::from_examples(data.train, Side::source).symbols();
  config.target_symbols = Vocabulary::from_examples(data.train, Side::target).symbols();
  models::Sizes& sizes = config.sizes;
  sizes.source_symbols = kFirstSymbol + static_cast<std::int64_t>(config.source_symbols.size());
  sizes.target_symbols = kFirstSymbol + static_cast<std::int64_t>(config.target_symbols.size());
  std::int64_t source = 1;
  std::int64_t target = 1;
  for (const std::vector<Example>* part : {&data.train, &data.valid, &data.test})
    for (const Example& e : *part) {
      source = std::max(source, static_cast<std::int64_t>(e.source.size()));
      target = std::max(target, static_cast<std::int64_t>(e.target.size()) + 1);
    }
  sizes.max_target = target;
  sizes.max_length = std::max(source, target) + kSpareLength;
}

SequenceRun load_sequence_run(const std::filesystem::path& directory) {
  SequenceRun run;
  run.config = read_config(directory);
  run.model = std::make_unique<models::SequenceModel>(run.config.model, run.config.sizes);
  run.values = best_weights(directory, run.model->parameters());
  return run;
}

std::vector<training::EncodedExample> encode(const SequenceRunConfig& config, std::span<const Example> examples) {
  const Vocabulary source(config.source_symbols);
  const Vocabulary target(config.target_symbols);
  std::vector<training::EncodedExample> result;
  result.reserve(examples.size());
  for (const Example& e : examples) result.push_back({source.encode(e.source), target.encode(e.target)});
  return result;
}

std::vector<training::Question> questions(const SequenceRunConfig& config, std::span<const Example> examples) {
  const Vocabulary source(config.source_symbols);
  const Vocabulary target(config.target_symbols);
  std::vector<training::Question> result;
  for (const References& r : group_by_source(examples)) {
    training::Question q{source.encode(r.source), {}};
    for (const std::vector<std::string>& t : r.targets) q.targets.push_back(target.encode(t));
    result.push_back(std::move(q));
  }
  return result;
}

}  // namespace rapt::inline v1::tasks
