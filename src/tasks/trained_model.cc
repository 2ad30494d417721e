#include "rapt/trained_model.h"

#include "rapt/error.h"
#include "rapt/threads.h"
#include "tasks/ensemble_run.h"

namespace rapt::inline v1 {

struct TrainedModel::Parts {
  tasks::EnsembleRun run;
  models::Ensemble models;
  tasks::Vocabulary source, target;

  explicit Parts(std::span<const std::filesystem::path> runs)
      : run(tasks::load_ensemble(runs)),
        models(run.models()),
        source(run.config().source_symbols),
        target(run.config().target_symbols) {}

  const tasks::DataConfig& data() const { return run.config().data; }
  std::vector<int> ids(std::string_view text) const {
    if (text.empty()) return {};
    return source.encode(data().split_source(text));
  }
};

TrainedModel::TrainedModel(const std::filesystem::path& run)
    : TrainedModel(std::make_unique<Parts>(std::span(&run, 1))) {}

TrainedModel::TrainedModel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

TrainedModel TrainedModel::ensemble(std::span<const std::filesystem::path> runs) {
  return TrainedModel(std::make_unique<Parts>(runs));
}

TrainedModel::~TrainedModel() = default;
TrainedModel::TrainedModel(TrainedModel&&) noexcept = default;
TrainedModel& TrainedModel::operator=(TrainedModel&&) noexcept = default;

std::vector<std::vector<Answer>> TrainedModel::decode(std::span<const std::string> texts,
                                                      const DecodeOptions& options) const {
  std::vector<std::vector<int>> sources;
  for (const std::string& text : texts) sources.push_back(parts_->ids(text));
  const training::SearchOptions search{options.beam, options.nbest, options.length_penalty};
  const auto found =
      training::translate(parts_->models, sources, search, options.threads > 0 ? options.threads : default_threads());
  std::vector<std::vector<Answer>> results;
  for (const std::vector<training::Hypothesis>& list : found) {
    std::vector<Answer>& answers = results.emplace_back();
    for (const training::Hypothesis& h : list) {
      Answer answer;
      answer.tokens = parts_->target.decode(h.tokens);
      answer.text = parts_->data().join_target(answer.tokens);
      answer.log_probability = h.log_probability;
      answer.score = h.score;
      answer.finished = h.finished;
      answers.push_back(std::move(answer));
    }
  }
  return results;
}

std::string TrainedModel::operator()(std::string_view text) const {
  const std::string one(text);
  return decode(std::span<const std::string>(&one, 1)).front().front().text;
}

bool TrainedModel::has_attention() const { return parts_->models.has_attention(); }

AttentionMap TrainedModel::attention(std::string_view source, const Answer& answer) const {
  AttentionMap map;
  if (source.empty()) return map;
  map.source = parts_->data().split_source(source);
  map.target = answer.tokens;
  map.weights =
      training::align(parts_->models, {parts_->source.encode(map.source), parts_->target.encode(answer.tokens)});
  map.target.emplace_back("<end>");
  return map;
}

}  // namespace rapt::inline v1
