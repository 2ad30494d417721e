#include "tasks/sequence_run.h"

#include <algorithm>

#include "rapt/error.h"
#include "tasks/experiment.h"
#include "tasks/field_text.h"

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

void complete(SequenceRunConfig& config, const TaskData& data) {
  const auto symbols = [&](Side side, Units units, const LearnedSubwords& subwords) {
    if (config.data.source != Source::pairs) return Vocabulary::from_examples(data.train, side).symbols();
    const SymbolOptions& options = config.data.symbols;
    SymbolLimits limits{options.min_count, options.vocabulary, {}};
    // The model of subwords has its limit already.
    if (units == Units::subwords) limits = {options.min_count, 0, subwords.kept};
    return Vocabulary::from_examples(data.train, side, limits).symbols();
  };
  config.source_symbols = symbols(Side::source, config.data.source_units, config.data.source_subwords);
  config.target_symbols = symbols(Side::target, config.data.target_units, config.data.target_subwords);
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

training::Canonical canonical(const SequenceRunConfig& config) {
  if (config.data.source != Source::pairs || config.data.target_units != Units::subwords) return {};
  const auto target = std::make_shared<const Vocabulary>(config.target_symbols);
  return [target, data = config.data](const std::vector<int>& answer) {
    std::vector<int> ids = target->encode(data.split_target(data.join_target(target->decode(answer))));
    // An unknown symbol would equal any other one.
    return std::find(ids.begin(), ids.end(), kUnknown) == ids.end() ? ids : answer;
  };
}

}  // namespace rapt::inline v1::tasks
