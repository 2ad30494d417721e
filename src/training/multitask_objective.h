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

// What a network says about one picture, in the units of the truth: classes, depth, unit normals, probabilities of edges,
// reshading. [size², channels of the truth] each, in the order of the network's tasks. `observer` is told of every attention. Throws
// NotFinite where the numbers overflow.
std::vector<std::vector<float>> predict(const models::MultitaskNetwork& network, const float* values,
                                        const PixelExamples& examples, std::int64_t n,
                                        layers::AttentionObserver<float>* observer = nullptr);

// Loss and scores, the same for any number of threads. `edges`: see MultitaskObjective. Once stop() says so, of the
// pictures that were done.
Scores score(const models::MultitaskNetwork& network, const float* values, const PixelExamples& examples,
             const BinaryWeights& edges, int threads, const std::function<bool()>& stop = {});

// To tell what every pixel is, task by task: the weighted sum of the losses of all tasks. The network and the examples
// outlive it.
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

  // Edges are few: both kinds of pixels get the same weight as a whole.
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
