#include "tasks/experiment.h"

#include <array>

#include "rapt/error.h"
#include "tasks/config_file.h"
#include "tasks/image_experiment.h"
#include "tasks/scene_experiment.h"
#include "tasks/sequence_experiment.h"
#include "training/checkpoint.h"

namespace rapt::inline v1::tasks {
namespace {

const Family& family_of(std::string_view task, const std::string& who) {
  std::string names;
  for (const Family& family : all_families())
    for (const TaskInfo& info : family.tasks) {
      if (info.name == task) return family;
      names += (names.empty() ? "" : ", ") + std::string(info.name);
    }
  throw Error(who + ": expected one of the tasks " + names + ", got '" + std::string(task) + "'");
}

}  // namespace

// A new family is one line here.
std::span<const Family> all_families() {
  static const std::array families{
      sequence_family(),
      scene_family(),
      image_family(),
  };
  return families;
}

std::unique_ptr<Experiment> start_experiment(std::string_view task, const Settings& settings) {
  return family_of(task, "train").start(task, settings);
}

std::unique_ptr<Experiment> open_experiment(const std::filesystem::path& directory, const Settings& settings) {
  return family_of(task_of_run(directory), (directory / "config.json").string()).open(directory, settings);
}

std::string task_of_run(const std::filesystem::path& directory) {
  const std::filesystem::path path = run_config_path(directory);
  const nlohmann::json whole = parse_config(path);
  const auto data = whole.find("data");
  if (data == whole.end() || !data->is_object() || !data->contains("task") || !(*data)["task"].is_string())
    throw Error(path.string() + ": expected a task in the section 'data', got none");
  return (*data)["task"].get<std::string>();
}

std::vector<float> best_weights(const std::filesystem::path& directory, const layers::Parameters& parameters) {
  const std::filesystem::path path = directory / "model.safetensors";
  if (!std::filesystem::exists(path))
    throw Error(directory.string() +
                ": expected model.safetensors, got none: the run has not finished its first epoch");
  std::vector<float> values(static_cast<std::size_t>(parameters.size()));
  training::load_weights(path, parameters, values.data());
  return values;
}

}  // namespace rapt::inline v1::tasks
