#include "tasks/scene_experiment.h"

#include <array>

#include "attend/counted.h"
#include "rapt/threads.h"
#include "tasks/scene_fields.h"
#include "tasks/scene_run.h"

namespace rapt::inline v1::tasks {
namespace {

constexpr std::array<TaskInfo, 1> kSceneTasks{{
    {"scenes", "ray-cast pictures → classes, depth, normals, edges and reshading of every pixel"},
}};

class SceneExperiment : public Experiment {
 public:
  explicit SceneExperiment(SceneRunConfig config) : config_(std::move(config)), network_(make_network(config_)) {}

  const training::TrainOptions& training() const override { return config_.training; }

  std::shared_ptr<training::Objective> objective() override {
    return std::make_shared<training::MultitaskObjective>(network_, scenes(Split::train), scenes(Split::valid),
                                                          config_.training.batch, config_.training.seed);
  }

  std::string about_model() const override {
    const models::MultitaskConfig& m = config_.model;
    std::string tasks;
    for (const models::PixelTask task : network_.tasks())
      tasks += (tasks.empty() ? "" : ", ") + std::string(models::info_of(task).name);
    return "multi-task network: " + counted(m.stages, "stage") + " from width " + std::to_string(m.width) + "; " +
           tasks + "; attention " +
           (m.sharing == models::Sharing::shared ? "shared, from " + m.reference : "of each task's own") + "; " +
           std::to_string(network_.multiply_adds() / 1000) + " thousand multiply-adds a picture";
  }
  std::string about_data() const override {
    const SceneDataConfig& d = config_.data;
    return counted(d.train, "scene") + " of " + std::to_string(d.size) + "×" + std::to_string(d.size) +
           " to train on, " + std::to_string(d.valid) + " to validate, " + std::to_string(d.test) + " to test";
  }
  Look look() const override { return Look::scenes; }

  void write_config(const std::filesystem::path& directory) const override { tasks::write_config(directory, config_); }

  std::optional<training::Scores> score(Split split, const float* values, int threads,
                                        const std::function<bool()>& stop) const override {
    return training::score(network_, values, scenes(split),
                           training::MultitaskObjective::edge_weights(scenes(Split::train)), threads, stop);
  }

 private:
  // Rendered on first use.
  const training::PixelExamples& scenes(Split split) const {
    training::PixelExamples& part = parts_[static_cast<std::size_t>(split)];
    if (part.count == 0) part = load_scenes(config_.data, split, default_threads());
    return part;
  }

  SceneRunConfig config_;
  models::MultitaskNetwork network_;
  mutable std::array<training::PixelExamples, 3> parts_;
};

std::unique_ptr<Experiment> start_scene_run(std::string_view, const Settings& settings) {
  SceneRunConfig config = scene_defaults();
  if (!settings.file.empty()) apply_file(config, settings.file);
  apply_options(config, settings.options);
  return std::make_unique<SceneExperiment>(std::move(config));
}

std::unique_ptr<Experiment> open_scene_run(const std::filesystem::path& directory, const Settings& settings) {
  SceneRunConfig config = read_scene_config(directory);
  go_on(config, directory.string(), settings);
  return std::make_unique<SceneExperiment>(std::move(config));
}

}  // namespace

Family scene_family() { return {kSceneTasks, start_scene_run, open_scene_run}; }

}  // namespace rapt::inline v1::tasks
