#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "explorer/exhibit.h"
#include "tasks/image_experiment.h"

namespace rapt::explorer {

// Whether a directory holds a run on images.
bool is_image_run(const std::filesystem::path& run);

// A trained image model and its attention.
class ImageSubject {
 public:
  // Throws if the directory holds no run on images, or if the model has no attention.
  explicit ImageSubject(const std::filesystem::path& run);

  // Every attention of the model for one of the test images, by its number as text. Throws for other texts.
  Exhibit show(const std::string& number) const;

 private:
  std::string title_;
  std::unique_ptr<tasks::ImageExperiment> experiment_;
  std::vector<float> values_;
  std::vector<Epoch> epochs_;
};

}  // namespace rapt::explorer
