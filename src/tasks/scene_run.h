#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/multitask.h"
#include "tasks/experiment.h"
#include "training/multitask_objective.h"
#include "training/options.h"

// A run on ray-cast scenes: what is learned about every pixel, and by which network.
namespace rapt::inline v1::tasks {

struct SceneDataConfig {
  std::int64_t size = 32;
  std::int64_t train = 1500;
  std::int64_t valid = 200;
  std::int64_t test = 300;
  std::int64_t samples = 2;
  std::uint64_t seed = 1;
};

struct SceneRunConfig {
  SceneDataConfig data;
  models::MultitaskConfig model;
  training::TrainOptions training;
};

SceneRunConfig scene_defaults();
// Changes a configuration by a file of settings, or by options as text. Both throw for unknown settings.
void apply_file(SceneRunConfig& config, const std::filesystem::path& file);
void apply_options(SceneRunConfig& config, std::map<std::string, std::string> options);
// A resumed run: settings may repeat the run's; they change only how long it trains.
void go_on(SceneRunConfig& config, const std::string& run, const Settings& settings);
// The same with all settings given.
void go_on(SceneRunConfig& config, const std::string& run, const SceneRunConfig& asked);
void write_config(const std::filesystem::path& directory, const SceneRunConfig& config);
SceneRunConfig read_scene_config(const std::filesystem::path& directory);

// The rendered scenes of one part, the same for any number of threads.
training::PixelExamples load_scenes(const SceneDataConfig& data, Split split, int threads);
// Scene n of a part alone.
training::PixelExamples load_scene(const SceneDataConfig& data, Split split, std::int64_t n);

models::MultitaskNetwork make_network(const SceneRunConfig& config);

}  // namespace rapt::inline v1::tasks
