#include "tasks/image_run.h"

#include <nlohmann/json.hpp>

#include "rapt/error.h"
#include "tasks/config_file.h"
#include "tasks/digits.h"
#include "tasks/experiment.h"
#include "tasks/image_fields.h"
#include "tasks/image_files.h"
#include "tasks/pairs.h"
#include "tensor/files.h"

namespace rapt::inline v1::tasks {

template <>
struct Names<ImageSource> {
  static constexpr std::array list{std::pair<std::string_view, ImageSource>{"digits", ImageSource::digits},
                                   std::pair<std::string_view, ImageSource>{"shapes", ImageSource::shapes},
                                   std::pair<std::string_view, ImageSource>{"cifar10", ImageSource::cifar10},
                                   std::pair<std::string_view, ImageSource>{"cifar100", ImageSource::cifar100},
                                   std::pair<std::string_view, ImageSource>{"mnist", ImageSource::mnist}};
};

template <class V>
void fields(V& v, ImageDataConfig& d) {
  fields(v, d.augmentation);
  if (d.source == ImageSource::digits) return;
  if (d.source == ImageSource::shapes) return fields(v, d.shapes);
  v("data", d.directory, "the directory of the files");
  v("valid_fraction", d.valid_fraction, 0, 0.9, "of the images to train on, to validate on instead");
  v("train_size", d.train_limit, 0, 1e9, "images to train on, the first ones; 0: all");
}

template <class V>
void fields(V& v, models::ImageModelConfig& m) {
  if (m.kind == models::ImageModelKind::cnn) fields(v, m.cnn);
  else fields(v, m.attention);
}

template <class V>
void fields(V& v, models::ImageSizes& s) {
  v("rows", s.rows, 1, 1e6, "");
  v("cols", s.cols, 1, 1e6, "");
  v("channels", s.channels, 1, 1e6, "");
  v("classes", s.classes, 1, 1e6, "");
}

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

bool reads_files(ImageSource source) { return source != ImageSource::digits && source != ImageSource::shapes; }

std::uint64_t hash_of(const ImageTask& task) {
  std::uint64_t hash = 0;
  for (const ImageData* part : {&task.train, &task.valid, &task.test}) {
    const std::string_view bytes(reinterpret_cast<const char*>(part->images.data()),
                                 static_cast<std::size_t>(part->images.count()));
    hash = hash * 0x9e3779b97f4a7c15U + stable_hash(bytes);
    for (const int label : part->labels) hash = hash * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(label) + 1;
  }
  return hash;
}

ImageTask read_images(const ImageDataConfig& data) {
  switch (data.source) {
    case ImageSource::digits: return digits_task();
    case ImageSource::shapes: return shapes_task(data.shapes);
    default: break;
  }
  if (data.directory.empty())
    throw Error("setting data: expected the directory of the files of " + std::string(name_of(data.source)) +
                ", got none");
  switch (data.source) {
    case ImageSource::cifar10: return cifar10_task(data.directory, data.valid_fraction);
    case ImageSource::cifar100: return cifar100_task(data.directory, CifarLabels::fine, data.valid_fraction);
    default: return mnist_task(data.directory, data.valid_fraction);
  }
}

}  // namespace

ImageRunConfig image_defaults(std::string_view task, models::ImageModelKind kind) {
  ImageRunConfig config;
  config.data.source = parse_name<ImageSource>("task", std::string(task));
  config.model.kind = kind;
  training::TrainOptions& training = config.training;
  training.schedule = training::Schedule::cosine;
  training.optimizer = training::Optimizer::adamw;
  training.weight_decay = 0.1;
  training.label_smoothing = 0.1;
  training.rate = 3e-3;
  training.warmup = 100;
  training.batch = 32;
  training.parts = 2;
  // Few images need many epochs and much dropout; digits may not be mirrored.
  const bool digits = config.data.source == ImageSource::digits || config.data.source == ImageSource::mnist;
  training.epochs = config.data.source == ImageSource::digits ? 80 : 20;
  config.data.augmentation = {.flip = !digits, .crop_margin = digits ? 1 : 2};
  config.model.attention.dropout = config.data.source == ImageSource::digits ? 0.2 : 0;
  if (digits) return config;
  // Smaller steps, and more of them: these tasks need no more regularisation.
  training.batch = 16;
  training.weight_decay = 0.05;
  training.label_smoothing = 0;
  // Patches of 4 × 4 leave a grid of 8 × 8, on which every encoding is trained in minutes.
  config.model.attention.patch = 4;
  config.model.attention.width = 48;
  config.model.attention.inner = 96;
  config.model.cnn.stages = 3;
  return config;
}

ImageRunConfig image_config(std::string_view task, const std::filesystem::path& file,
                            std::map<std::string, std::string> options) {
  models::ImageModelKind kind{};
  json whole = json::object();
  const std::string name = file.string();
  if (!file.empty()) whole = parse_settings(file, task);
  json model = take_section(name, whole, "model", false);
  // The kind of model decides what the other settings start from.
  FieldReader(name + ": model", model)("kind", kind, "");
  FieldSetter setter(options);
  setter("model", kind, "");
  ImageRunConfig config = image_defaults(task, kind);
  read_section(name + ": model", std::move(model), config.model);
  read_section(name + ": training", take_section(name, whole, "training", false), config.training);
  read_section(name + ": data", take_section(name, whole, "data", false), config.data);
  require_nothing_left(name, whole, "the sections model, training and data");
  fields(setter, config.model);
  fields(setter, config.training);
  fields(setter, config.data);
  require_no_option_left(options, std::string(name_of(kind)) + " models on task " + std::string(task));
  return config;
}

void go_on(ImageRunConfig& config, const std::string& run, const Settings& settings) {
  ImageRunConfig asked = config;
  const std::string name = settings.file.string();
  if (!settings.file.empty()) {
    json whole = parse_settings(settings.file, name_of(config.data.source));
    read_model_section(name, take_section(name, whole, "model", false), asked.model);
    read_section(name + ": training", take_section(name, whole, "training", false), asked.training);
    read_section(name + ": data", take_section(name, whole, "data", false), asked.data);
    require_nothing_left(name, whole, "the sections model, training and data");
  }
  std::map<std::string, std::string> options = settings.options;
  FieldSetter setter(options);
  setter("model", asked.model.kind, "");
  fields(setter, asked.model);
  fields(setter, asked.training);
  fields(setter, asked.data);
  require_no_option_left(
      options, std::string(name_of(asked.model.kind)) + " models on task " + std::string(name_of(config.data.source)));
  go_on(config, run, asked);
}

void go_on(ImageRunConfig& config, const std::string& run, const ImageRunConfig& asked) {
  require_same_settings(run, run_sections(config, 0), run_sections(asked, 0));
  config.training = asked.training;
}

ImageTask load_images(ImageDataConfig& data) {
  ImageTask task = read_images(data);
  if (!reads_files(data.source)) return task;
  if (data.train_limit > 0 && data.train_limit < task.train.count()) {
    std::vector<std::int64_t> first(static_cast<std::size_t>(data.train_limit));
    for (std::size_t n = 0; n < first.size(); ++n) first[n] = static_cast<std::int64_t>(n);
    task.train = select(task.train, first);
  }
  const std::uint64_t hash = hash_of(task);
  if (data.hash != 0 && data.hash != hash)
    throw Error(data.directory +
                ": expected the images that the run was started with, got others; restore them, or start a new run");
  data.hash = hash;
  return task;
}

void write_config(const std::filesystem::path& directory, const ImageRunConfig& config) {
  write_run_config(directory, run_sections(config, reads_files(config.data.source) ? config.data.hash : 0));
}

ImageRunConfig read_image_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = run_config_path(directory);
  const std::string file = path.string();
  json whole = parse_run_config(path);
  ImageRunConfig config;
  read_run_sections(file, whole, config, config.data.hash);
  require_nothing_left(file, whole, "which is not a part of a run");
  return config;
}

}  // namespace rapt::inline v1::tasks
