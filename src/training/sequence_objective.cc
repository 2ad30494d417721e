#include "training/sequence_objective.h"

#include "tensor/token_ids.h"

namespace rapt::inline v1::training {

Scores named(const Validation& v) {
  Scores scores;
  scores.loss = v.loss;
  scores.goal = v.scores.exact_match();
  scores.list = {{"sequences", static_cast<double>(v.scores.sequences()), Score::Form::count},
                 {"exact_match", v.scores.exact_match()},
                 {"sequence_error", v.scores.sequence_error()},
                 {"symbol_error", v.scores.symbol_error_rate()},
                 {"token_accuracy", v.scores.token_accuracy()}};
  return scores;
}

SequenceObjective::SequenceObjective(const SequenceModel& model, Batches batches, std::vector<Question> valid,
                                     double label_smoothing, Canonical canonical)
    : model_(model),
      batches_(std::move(batches)),
      valid_(std::move(valid)),
      canonical_(std::move(canonical)),
      label_smoothing_(static_cast<float>(label_smoothing)) {}

std::int64_t SequenceObjective::prepare(std::int64_t n, std::int64_t part, std::int64_t parts) {
  if (static_cast<std::int64_t>(parts_.size()) < parts) parts_.resize(static_cast<std::size_t>(parts));
  Batch& batch = parts_[static_cast<std::size_t>(part)];
  batches_.make_part(n, part, parts, batch);
  return batch.size > 0 ? batch.target_tokens() : 0;
}

LossSums SequenceObjective::loss(layers::Graph<float>& graph, std::int64_t part, float weight) const {
  const Batch& batch = parts_[static_cast<std::size_t>(part)];
  const Tensor<float> logits = model_.logits<float>(graph, batch);
  return cross_entropy(graph.tape, logits, batch.target_out, kPad, label_smoothing_, weight);
}

std::optional<Scores> SequenceObjective::validate(const float* values, int threads, const Processes& processes) const {
  if (valid_.empty()) return std::nullopt;
  return named(training::validate({model_, values}, valid_, {}, threads, canonical_, {}, processes));
}

}  // namespace rapt::inline v1::training
