#include "tasks/scene_run.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/parallel.h"
#include "rapt/error.h"
#include "tasks/config_file.h"
#include "tasks/scene_fields.h"
#include "tasks/scenes.h"
#include "tensor/files.h"

namespace rapt::inline v1::tasks {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Scenes that one thread renders at a time.
constexpr std::int64_t kChunk = 16;

ordered_json scene_sections(const SceneRunConfig& config) {
  ordered_json whole;
  whole["format"] = kConfigFormat;
  whole["data"]["task"] = "scenes";
  write_section(whole["data"], config.data);
  write_section(whole["model"], config.model);
  write_section(whole["training"], config.training);
  return whole;
}

template <class T>
void put(const Array& from, std::int64_t first, std::vector<T>& to, std::int64_t numbers) {
  const auto values = from.as<T>();
  std::copy(values.begin(), values.end(), to.begin() + first * numbers);
}

}  // namespace

SceneRunConfig scene_defaults() {
  SceneRunConfig config;
  config.training.optimizer = training::Optimizer::adamw;
  config.training.schedule = training::Schedule::cosine;
  config.training.rate = 2e-3;
  config.training.weight_decay = 0.05;
  config.training.warmup = 50;
  config.training.epochs = 12;
  config.training.batch = 16;
  return config;
}

void apply_file(SceneRunConfig& config, const std::filesystem::path& path) {
  json whole = parse_settings(path, "scenes");
  const std::string file = path.string();
  read_section(file + ": model", take_section(file, whole, "model", false), config.model);
  read_section(file + ": training", take_section(file, whole, "training", false), config.training);
  read_section(file + ": data", take_section(file, whole, "data", false), config.data);
  require_nothing_left(file, whole, "the sections model, training and data");
}

void apply_options(SceneRunConfig& config, std::map<std::string, std::string> options) {
  FieldSetter setter(options);
  fields(setter, config.model);
  fields(setter, config.training);
  fields(setter, config.data);
  require_no_option_left(options, "models on task scenes");
}

void go_on(SceneRunConfig& config, const std::string& run, const Settings& settings) {
  SceneRunConfig asked = config;
  if (!settings.file.empty()) apply_file(asked, settings.file);
  apply_options(asked, settings.options);
  go_on(config, run, asked);
}

void go_on(SceneRunConfig& config, const std::string& run, const SceneRunConfig& asked) {
  require_same_settings(run, scene_sections(config), scene_sections(asked));
  config.training = asked.training;
}

void write_config(const std::filesystem::path& directory, const SceneRunConfig& config) {
  write_run_config(directory, scene_sections(config));
}

SceneRunConfig read_scene_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = run_config_path(directory);
  const std::string file = path.string();
  json whole = parse_run_config(path);
  SceneRunConfig config;
  json data = take_section(file, whole, "data", true);
  if (data.value("task", json()) != "scenes") throw Error(file + ": expected a run on scenes, got another task");
  data.erase("task");
  read_section(file + ": data", std::move(data), config.data);
  read_section(file + ": model", take_section(file, whole, "model", true), config.model);
  read_section(file + ": training", take_section(file, whole, "training", true), config.training);
  require_nothing_left(file, whole, "which is not a part of a run");
  return config;
}

namespace {

// Scenes first … first + count − 1.
training::PixelExamples render_examples(const SceneDataConfig& data, Split split, std::int64_t first_scene,
                                        std::int64_t count, int threads) {
  training::PixelExamples all;
  all.count = count;
  all.size = data.size;
  const std::int64_t pixels = data.size * data.size;
  const auto numbers = static_cast<std::size_t>(all.count * pixels);
  all.rgb.resize(3 * numbers);
  all.segmentation.resize(numbers);
  all.depth.resize(numbers);
  all.normals.resize(3 * numbers);
  all.edges.resize(numbers);
  all.reshading.resize(numbers);
  const SceneOptions options{data.seed, data.size, static_cast<int>(data.samples)};
  parallel_for((all.count + kChunk - 1) / kChunk, threads, [&](std::int64_t chunk, int) {
    const std::int64_t first = chunk * kChunk;
    const SceneData part =
        render_scenes(options, static_cast<int>(split), first_scene + first, std::min(kChunk, all.count - first));
    put(part.rgb, first, all.rgb, 3 * pixels);
    put(part.segmentation, first, all.segmentation, pixels);
    put(part.depth, first, all.depth, pixels);
    put(part.normals, first, all.normals, 3 * pixels);
    put(part.edges, first, all.edges, pixels);
    put(part.reshading, first, all.reshading, pixels);
  });
  // The sky has no depth.
  for (std::size_t n = 0; n < numbers; ++n)
    if (all.segmentation[n] == static_cast<std::uint8_t>(SceneClass::sky))
      all.depth[n] = std::numeric_limits<float>::quiet_NaN();
  return all;
}

}  // namespace

training::PixelExamples load_scenes(const SceneDataConfig& data, Split split, int threads) {
  const std::int64_t count = split == Split::train ? data.train : split == Split::valid ? data.valid : data.test;
  return render_examples(data, split, 0, count, threads);
}

training::PixelExamples load_scene(const SceneDataConfig& data, Split split, std::int64_t n) {
  return render_examples(data, split, n, 1, 1);
}

models::MultitaskNetwork make_network(const SceneRunConfig& config) {
  return {config.model, config.data.size, static_cast<std::int64_t>(kSceneClasses.size())};
}

}  // namespace rapt::inline v1::tasks
