#include "tasks/sequence_experiment.h"

#include <array>

#include "attend/counted.h"
#include "tasks/fields.h"
#include "tasks/sequence_run.h"
#include "training/sequence_objective.h"

namespace rapt::inline v1::tasks {
namespace {

constexpr std::array<TaskInfo, 3> kSequenceTasks{{
    {"reverse", "strings over a, b, c, d → the same backwards"},
    {"case", "\"<U> some words\" → upper case, \"<L> …\" → lower case, letter by letter"},
    {"pairs", "lines of source TAB target; data: their file"},
}};

// Empty for softmax, the usual one.
std::string normalized(const std::string& name) { return name == "softmax" ? "" : " under " + name; }

std::string attention_of(const std::string& mechanism, const layers::FormulaTexts& formula) {
  if (!formula.any()) return mechanism;
  return formula.score.empty() ? "a formula" : "'" + formula.score + "'";
}

std::string about(const SequenceRunConfig& config) {
  std::string text(name_of(config.model.kind));
  if (config.model.kind == models::Kind::seq2seq) {
    const models::Seq2seqConfig& m = config.model.seq2seq;
    text += std::string(" of ") + (m.bidirectional ? "bidirectional " : "") + std::string(name_of(m.cell)) +
            " layers: " + std::to_string(m.layers) + " × " + counted(m.hidden, "unit") + ", attention " +
            attention_of(m.attention, m.formula) + normalized(m.normalize);
    if (m.attention == "none") text += ", conditioned at " + std::string(name_of(m.conditioning));
    if (m.input_feeding) text += ", input feeding";
  } else {
    const models::TransformerConfig& m = config.model.transformer;
    text += ": " + counted(m.layers, "layer") + " of width " + std::to_string(m.width) + ", " +
            counted(m.heads, "head") + " of " + attention_of(m.attention, m.formula) +
            (m.cross_formula.any() ? ", to the source " + attention_of(m.cross_attention, m.cross_formula) : "") +
            normalized(m.normalize) + ", positions " + std::string(name_of(m.positions));
  }
  return text;
}

class SequenceExperiment : public Experiment {
 public:
  SequenceExperiment(SequenceRunConfig config, bool fresh) : config_(std::move(config)) {
    data_ = load_data(config_.data);
    if (fresh) complete(config_, data_);
    model_ = std::make_unique<models::SequenceModel>(config_.model, config_.sizes);
  }

  const training::TrainOptions& training() const override { return config_.training; }

  std::shared_ptr<training::Objective> objective() override {
    training::Batches batches(encode(config_, data_.train), config_.training.batch, config_.training.seed);
    if (config_.data.source == Source::pairs) batches.read_as_unknown(config_.data.symbols.unknown_dropout);
    return std::make_shared<training::SequenceObjective>(*model_, std::move(batches), questions(config_, data_.valid),
                                                         config_.training.label_smoothing, canonical(config_));
  }

  std::string about_model() const override { return about(config_); }
  std::string about_data() const override {
    const std::int64_t skipped = config_.data.skipped_lines;
    const std::string more = skipped == 0 ? ""
                                          : "; skipped " + counted(skipped, "line") + " of more than " +
                                                counted(config_.data.longest, "token");
    return counted(data_.train.size(), "example") + " to train on, " + std::to_string(data_.valid.size()) +
           " to validate, " + std::to_string(data_.test.size()) + " to test" + more + about_symbols();
  }
  Look look() const override { return Look::answers; }

  void write_config(const std::filesystem::path& directory) const override { tasks::write_config(directory, config_); }

  std::optional<training::Scores> score(Split split, const float* values, int threads,
                                        const std::function<bool()>& stop) const override {
    const std::vector<Example>& examples = split == Split::test    ? data_.test
                                           : split == Split::valid ? data_.valid
                                                                   : data_.train;
    if (examples.empty()) return std::nullopt;
    return named(
        training::validate({*model_, values}, questions(config_, examples), {}, threads, canonical(config_), stop));
  }

 private:
  std::string about_symbols() const {
    if (config_.data.source != Source::pairs) return "";
    return "; " + counted(config_.source_symbols.size(), "source symbol") + ", " +
           counted(config_.target_symbols.size(), "target symbol");
  }

  SequenceRunConfig config_;
  TaskData data_;
  std::unique_ptr<models::SequenceModel> model_;
};

std::unique_ptr<Experiment> start_sequence_run(std::string_view task, const Settings& settings) {
  SequenceRunConfig config = task_defaults(task);
  if (!settings.file.empty()) apply_file(config, settings.file);
  apply_options(config, settings.options);
  return std::make_unique<SequenceExperiment>(std::move(config), true);
}

std::unique_ptr<Experiment> open_sequence_run(const std::filesystem::path& directory, const Settings& settings) {
  SequenceRunConfig config = read_config(directory);
  go_on(config, directory.string(), settings);
  return std::make_unique<SequenceExperiment>(std::move(config), false);
}

}  // namespace

Family sequence_family() { return {kSequenceTasks, start_sequence_run, open_sequence_run}; }

}  // namespace rapt::inline v1::tasks
