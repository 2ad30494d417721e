#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "layers/graph.h"

namespace rapt::inline v1::training {

class Processes;

// One score of a validation.
struct Score {
  enum class Form : std::uint8_t { fraction, number, count };
  std::string name;  // as in metrics.jsonl: lower case, underscores
  double value = 0;
  Form form = Form::fraction;  // a fraction is shown as percent
};

struct Scores {
  double loss = 0;
  double goal = 0;  // the best weights are those where it is highest; among equals, those of the least loss
  std::vector<Score> list;

  // Throws rapt::Error where there is none of this name.
  double get(std::string_view name) const;
};

// What is learned, and from which data: all that a Trainer needs.
class Objective {
 public:
  virtual ~Objective() = default;

  virtual const layers::Parameters& parameters() const = 0;

  // The unit that the loss is a mean over: "token", "image", "pixel".
  virtual std::string_view unit() const = 0;

  // Steps per epoch, the same for each.
  virtual std::int64_t batches() const = 0;
  // Reorders the examples; the order depends only on the epoch and the run's seed.
  virtual void start_epoch(std::int64_t epoch) = 0;

  // Lays out one of `parts` parts of batch n; gives the units in it, and 0 where it is empty. Called by one thread.
  virtual std::int64_t prepare(std::int64_t n, std::int64_t part, std::int64_t parts) = 0;
  // The loss of a part that was laid out, `weight` for each unit, ready for backward(). Parts run at the same time.
  virtual LossSums loss(layers::Graph<float>& graph, std::int64_t part, float weight) const = 0;

  // Nullopt if there are no validation examples. A collective call: processes may share the work, and the scores have
  // the bits of one process.
  virtual std::optional<Scores> validate(const float* values, int threads, const Processes& processes) const = 0;

  // More of these weights for the epoch's line of metrics.jsonl; null: nothing.
  virtual nlohmann::json record(const float* values) const;
};

}  // namespace rapt::inline v1::training
