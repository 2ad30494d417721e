#include "tasks/image_experiment.h"

#include <array>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tasks/image_fields.h"
#include "tasks/image_objective.h"

namespace rapt::inline v1::tasks {
namespace {

constexpr std::array<TaskInfo, 5> kImageTasks{{
    {"digits", "1,797 handwritten digits of 8 × 8 pixels → which digit"},
    {"shapes", "synthetic images of 32 × 32 colour pixels → figure and texture, ten classes"},
    {"cifar10", "the ten classes of CIFAR-10; data: the directory of its binary files"},
    {"cifar100", "the hundred fine classes of CIFAR-100; data: the directory of its binary files"},
    {"mnist", "the handwritten digits of MNIST; data: the directory of its IDX files"},
}};

models::ImageSizes sizes_of(const ImageData& data) {
  return {data.rows(), data.cols(), data.channels(), static_cast<std::int64_t>(data.classes.size())};
}

bool equal(const models::ImageSizes& a, const models::ImageSizes& b) {
  return a.rows == b.rows && a.cols == b.cols && a.channels == b.channels && a.classes == b.classes;
}

std::unique_ptr<Experiment> start_image_run(std::string_view task, const Settings& settings) {
  return std::make_unique<ImageExperiment>(image_config(task, settings.file, settings.options));
}

std::unique_ptr<Experiment> open_image_run(const std::filesystem::path& directory, const Settings& settings) {
  ImageRunConfig config = read_image_config(directory);
  go_on(config, directory.string(), settings);
  return std::make_unique<ImageExperiment>(std::move(config));
}

}  // namespace

ImageExperiment::ImageExperiment(ImageRunConfig config) : config_(std::move(config)) {
  data_ = load_images(config_.data);
  const models::ImageSizes sizes = sizes_of(data_.train);
  if (config_.sizes.rows != 0 && !equal(config_.sizes, sizes))
    throw Error("train: expected images of the sizes that the run was started with, got others");
  config_.sizes = sizes;
  statistics_ = channel_statistics(data_.train);
  model_ = std::make_unique<models::ImageClassifier>(config_.model, config_.sizes);
}

std::shared_ptr<training::Objective> ImageExperiment::objective() {
  return std::make_shared<ImageObjective>(*model_, data_, statistics_, config_.data.augmentation, config_.training);
}

std::string ImageExperiment::about_model() const {
  std::string text;
  if (config_.model.kind == models::ImageModelKind::cnn) {
    const models::CnnConfig& m = config_.model.cnn;
    text = "cnn: " + counted(m.stages, "stage") + " of " + counted(m.blocks, "residual block") + ", " +
           counted(m.width, "channel") + " at first";
  } else {
    const models::AttentionClassifierConfig& m = config_.model.attention;
    const auto& grid = model_->attention()->grid();
    text = "attention: " + counted(m.layers, "layer") + " of " + counted(m.heads, "head") + ", " +
           std::string(name_of(m.encoding)) + ", over " + std::to_string(grid[0]) + " × " + std::to_string(grid[1]) +
           " patches of width " + std::to_string(m.width);
  }
  return text + "; " + std::to_string(model_->multiply_adds()) + " multiply-adds an image";
}

std::string ImageExperiment::about_data() const {
  return counted(data_.train.count(), "image") + " to train on, " + std::to_string(data_.valid.count()) +
         " to validate, " + std::to_string(data_.test.count()) + " to test";
}

Look ImageExperiment::look() const {
  return config_.model.kind == models::ImageModelKind::cnn ? Look::scores : Look::head_places;
}

void ImageExperiment::write_config(const std::filesystem::path& directory) const {
  tasks::write_config(directory, config_);
}

std::optional<training::Scores> ImageExperiment::score(Split split, const float* values, int threads,
                                                       const std::function<bool()>& stop) const {
  const ImageData& images = split == Split::test ? data_.test : split == Split::valid ? data_.valid : data_.train;
  if (images.count() == 0) return std::nullopt;
  return classification_scores(*model_, values, images, statistics_, threads, stop);
}

Family image_family() { return {kImageTasks, start_image_run, open_image_run}; }

}  // namespace rapt::inline v1::tasks
