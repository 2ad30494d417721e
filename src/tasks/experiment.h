#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "training/objective.h"
#include "training/options.h"

// A training run, whatever it learns: settings, data and model behind one interface, which `rapt train` drives.
namespace rapt::inline v1::tasks {

enum class Split : std::uint8_t { train, valid, test };

// What to look at once a model is trained.
enum class Look : std::uint8_t { answers, head_places, scenes, scores };

class Experiment {
 public:
  virtual ~Experiment() = default;

  virtual const training::TrainOptions& training() const = 0;
  virtual std::shared_ptr<training::Objective> objective() = 0;

  // A line about the model, and one about the data.
  virtual std::string about_model() const = 0;
  virtual std::string about_data() const = 0;
  virtual Look look() const = 0;

  // config.json, from which open() makes the same experiment again.
  virtual void write_config(const std::filesystem::path& directory) const = 0;

  // No scores if there are no such examples. After stop(), those of what was scored until then.
  virtual std::optional<training::Scores> score(Split split, const float* values, int threads,
                                                const std::function<bool()>& stop) const = 0;
};

// What a user asks for: settings by name ("hidden" → "128"), which override a file of settings, which overrides the
// task's own.
struct Settings {
  std::filesystem::path file;  // may be empty
  std::map<std::string, std::string> options;
};

struct TaskInfo {
  std::string_view name;
  std::string_view about;
};

// Tasks with the same kind of data, models and settings.
struct Family {
  std::span<const TaskInfo> tasks;
  // A new run. Throws rapt::Error for settings that it does not have.
  std::unique_ptr<Experiment> (*start)(std::string_view task, const Settings& settings);
  // The run of a directory. Settings may repeat the run's; they change only how long it trains.
  std::unique_ptr<Experiment> (*open)(const std::filesystem::path& directory, const Settings& settings);
};

std::span<const Family> all_families();

// Throws rapt::Error if there is no task of this name.
std::unique_ptr<Experiment> start_experiment(std::string_view task, const Settings& settings);
// Throws rapt::Error if the directory holds no run, or one with other settings.
std::unique_ptr<Experiment> open_experiment(const std::filesystem::path& directory, const Settings& settings = {});
// The task of the run in a directory.
std::string task_of_run(const std::filesystem::path& directory);

// The best weights of a run. Throws rapt::Error if it has none yet.
std::vector<float> best_weights(const std::filesystem::path& directory, const layers::Parameters& parameters);

}  // namespace rapt::inline v1::tasks
