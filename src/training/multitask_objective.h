#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "layers/observer.h"
#include "models/multitask.h"
#include "tensor/losses.h"
#include "training/objective.h"
#include "training/pixel_scores.h"

namespace rapt::inline v1::training {

// Pictures with the truth of every task at every pixel, [count, size, size, …] each. The depth of a pixel without one is
// not a number, its normal is zero.
struct PixelExamples {
  std::int64_t count = 0;
  std::int64_t size = 0;
  std::vector<float> rgb;  // 0 to 1
  std::vector<std::uint8_t> segmentation;
  std::vector<float> depth;
  std::vector<float> normals;
  std::vector<std::uint8_t> edges;
  std::vector<float> reshading;
};

// The network's answers about one picture, in the units of the truth and the order of its tasks: classes, depth, unit
// normals, edge probabilities, reshading, [size², channels] each. `observer` sees every attention. Throws NotFinite.
std::vector<std::vector<float>> predict(const models::MultitaskNetwork& network, const float* values,
                                        const PixelExamples& examples, std::int64_t n,
                                        layers::AttentionObserver<float>* observer = nullptr);

// Loss and scores, the same for any number of threads. `edges`: see MultitaskObjective. Once stop() says so, of the
// pictures that were done.
Scores score(const models::MultitaskNetwork& network, const float* values, const PixelExamples& examples,
             const BinaryWeights& edges, int threads, const std::function<bool()>& stop = {});

// The objective of describing every pixel, task by task: the weighted sum of all tasks' losses. The network and the
// examples must outlive it.
class MultitaskObjective : public Objective {
 public:
  MultitaskObjective(const models::MultitaskNetwork& network, const PixelExamples& train, const PixelExamples& valid,
                     std::int64_t batch, std::uint64_t seed);

  const layers::Parameters& parameters() const override { return network_.parameters(); }
  std::string_view unit() const override { return "pixel"; }
  std::int64_t batches() const override { return (train_.count + batch_ - 1) / batch_; }
  void start_epoch(std::int64_t epoch) override;
  std::int64_t prepare(std::int64_t n, std::int64_t part, std::int64_t parts) override;
  LossSums loss(layers::Graph<float>& graph, std::int64_t part, float weight) const override;
  std::optional<Scores> validate(const float* values, int threads, const Processes& processes) const override;

  // Edges are rare: pixels with and without one get the same weight in total.
  static BinaryWeights edge_weights(const PixelExamples& examples);

 private:
  const models::MultitaskNetwork& network_;
  const PixelExamples& train_;
  const PixelExamples& valid_;
  std::int64_t batch_;
  std::uint64_t seed_;
  BinaryWeights edges_;
  std::vector<std::int64_t> order_;
  std::vector<PixelExamples> parts_;  // laid out [size², batch, …], as the network takes them
};

}  // namespace rapt::inline v1::training
