#pragma once

#include "models/image_classifier.h"
#include "tasks/experiment.h"
#include "tasks/image_run.h"

namespace rapt::inline v1::tasks {

// A run on images behind the interface of all runs.
class ImageExperiment : public Experiment {
 public:
  // A new run if the sizes are not set yet.
  explicit ImageExperiment(ImageRunConfig config);

  const ImageRunConfig& config() const { return config_; }
  const ImageTask& data() const { return data_; }
  const models::ImageClassifier& model() const { return *model_; }
  // Of the training images; all images are normalised by them.
  const ChannelStatistics& statistics() const { return statistics_; }

  const training::TrainOptions& training() const override { return config_.training; }
  std::shared_ptr<training::Objective> objective() override;
  std::string about_model() const override;
  std::string about_data() const override;
  Look look() const override;
  void write_config(const std::filesystem::path& directory) const override;
  std::optional<training::Scores> score(Split split, const float* values, int threads,
                                        const std::function<bool()>& stop) const override;

 private:
  ImageRunConfig config_;
  ImageTask data_;
  ChannelStatistics statistics_;
  std::unique_ptr<models::ImageClassifier> model_;
};

// digits, shapes, cifar10, cifar100, mnist: a class for each image.
Family image_family();

}  // namespace rapt::inline v1::tasks
