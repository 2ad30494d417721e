#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "models/image_config.h"
#include "tasks/images.h"
#include "tasks/shapes.h"
#include "training/options.h"

// A run on images: task, data and model, in one directory.
namespace rapt::inline v1::tasks {

enum class ImageSource { digits, shapes, cifar10, cifar100, mnist };

struct ImageDataConfig {
  ImageSource source = ImageSource::digits;
  ShapesOptions shapes{};
  // For files: their directory, and the hash of all images so that a run goes on with the data it began with.
  std::string directory;
  std::uint64_t hash = 0;
  double valid_fraction = 0.1;
  std::int64_t train_limit = 0;  // train on the first ones only; 0: all
  Augmentation augmentation{};
};

struct ImageRunConfig {
  ImageDataConfig data;
  models::ImageModelConfig model;
  training::TrainOptions training;
  models::ImageSizes sizes;  // of the data
};

// The settings that suit a task and a model on it. Throws for other names.
ImageRunConfig image_defaults(std::string_view task, models::ImageModelKind kind);

// A new run's settings: the task's own, then a file, then options as text. Throws for unknown ones.
ImageRunConfig image_config(std::string_view task, const std::filesystem::path& file,
                            std::map<std::string, std::string> options);

// A resumed run: settings may repeat the run's; they change only how long it trains.
struct Settings;
void go_on(ImageRunConfig& config, const std::string& run, const Settings& settings);
// The same with all settings given.
void go_on(ImageRunConfig& config, const std::string& run, const ImageRunConfig& asked);

// Checks the hash if there is one, else sets it.
ImageTask load_images(ImageDataConfig& data);

void write_config(const std::filesystem::path& directory, const ImageRunConfig& config);
ImageRunConfig read_image_config(const std::filesystem::path& directory);

}  // namespace rapt::inline v1::tasks
