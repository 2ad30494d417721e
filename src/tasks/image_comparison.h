#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tasks/image_experiment.h"
#include "training/trainer.h"

// The same images learned by every kind of image model: five encodings of attention, and convolutions.
namespace rapt::inline v1::tasks {

struct ImageContender {
  std::string name;
  std::map<std::string, std::string> settings;  // on top of the task's own
};

const std::vector<ImageContender>& image_contenders();

// Settings under which all models train on a task in a few minutes.
std::map<std::string, std::string> comparison_settings(std::string_view task, bool quick);

struct ImageComparison {
  std::vector<std::string> tasks{"digits", "shapes"};
  std::int64_t seeds = 1;
  std::uint64_t seed = 1;           // the first
  std::int64_t epochs = 0;          // 0: as in the settings
  std::filesystem::path directory;  // of the runs; existing ones are resumed
  int threads = 1;
  bool quick = false;
};

struct ImageComparisonRow {
  std::string task;
  std::string model;
  std::vector<double> accuracies;  // on the test images, of each seed
  std::int64_t parameters = 0;
  std::int64_t multiply_adds = 0;  // of one image's forward pass
  std::int64_t epochs = 0;
  double seconds = 0;  // of training, the mean over the seeds

  double accuracy() const;   // the mean
  double deviation() const;  // of the accuracies, 0 for one seed
  double seconds_per_epoch() const { return seconds / static_cast<double>(epochs); }
};

// Progress in epochs, and what is running.
using ImageComparisonProgress =
    std::function<void(std::int64_t done, std::int64_t total, const std::string& what, const training::StepReport*)>;

// Trains them all. Throws rapt::Error for an unknown task; returns what is done when stop() says so.
std::vector<ImageComparisonRow> compare_image_models(const ImageComparison& comparison,
                                                     const ImageComparisonProgress& progress,
                                                     const std::function<bool()>& stop = {});

}  // namespace rapt::inline v1::tasks
