#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "models/image_classifier.h"
#include "tasks/images.h"
#include "training/objective.h"
#include "training/options.h"
#include "training/processes.h"

namespace rapt::inline v1::tasks {

// Accuracy and loss on all images of a set, or on those done when stop() said so. The bits depend neither on the number
// of threads nor on that of the processes that share the images.
training::Scores classification_scores(const models::ImageClassifier& model, const float* values, const ImageData& data,
                                       const ChannelStatistics& statistics, int threads,
                                       const std::function<bool()>& stop = {},
                                       const training::Processes& processes = training::Processes());

// Classification. Model and data must outlive it.
class ImageObjective : public training::Objective {
 public:
  ImageObjective(const models::ImageClassifier& model, const ImageTask& data, const ChannelStatistics& statistics,
                 const Augmentation& augmentation, const training::TrainOptions& options);

  const layers::Parameters& parameters() const override { return model_.parameters(); }
  std::string_view unit() const override { return "image"; }
  std::int64_t batches() const override;
  void start_epoch(std::int64_t epoch) override;
  std::int64_t prepare(std::int64_t n, std::int64_t part, std::int64_t parts) override;
  LossSums loss(layers::Graph<float>& graph, std::int64_t part, float weight) const override;
  std::optional<training::Scores> validate(const float* values, int threads,
                                           const training::Processes& processes) const override;
  // Where the heads look: "centers" [layers][heads][2] and "covariances" [layers][heads][2][2]; see head_places.h.
  nlohmann::json record(const float* values) const override;

 private:
  struct Part {
    std::vector<float> images;
    std::vector<int> labels;
  };

  const models::ImageClassifier& model_;
  const ImageTask& data_;
  ChannelStatistics statistics_;
  Augmentation augmentation_;
  training::TrainOptions options_;
  std::int64_t epoch_ = 0;
  std::vector<std::int64_t> order_;
  std::vector<Part> parts_;
};

}  // namespace rapt::inline v1::tasks
