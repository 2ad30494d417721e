#pragma once

#include <memory>
#include <vector>

#include "training/batches.h"
#include "training/evaluation.h"
#include "training/objective.h"
#include "training/options.h"

namespace rapt::inline v1::training {

// The scores by name; exact match is the goal.
Scores named(const Validation& validation);

// The objective of predicting each source's target, token by token. The model must outlive it.
class SequenceObjective : public Objective {
 public:
  SequenceObjective(const SequenceModel& model, Batches batches, std::vector<Question> valid, double label_smoothing,
                    Canonical canonical = {});

  const layers::Parameters& parameters() const override { return model_.parameters(); }
  std::string_view unit() const override { return "token"; }
  std::int64_t batches() const override { return batches_.count(); }
  void start_epoch(std::int64_t epoch) override { batches_.start_epoch(epoch); }
  std::int64_t prepare(std::int64_t n, std::int64_t part, std::int64_t parts) override;
  LossSums loss(layers::Graph<float>& graph, std::int64_t part, float weight) const override;
  std::optional<Scores> validate(const float* values, int threads, const Processes& processes) const override;

 private:
  const SequenceModel& model_;
  Batches batches_;
  std::vector<Question> valid_;
  Canonical canonical_;
  float label_smoothing_;
  std::vector<Batch> parts_;
};

}  // namespace rapt::inline v1::training
