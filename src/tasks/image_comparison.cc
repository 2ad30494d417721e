#include "tasks/image_comparison.h"

#include <algorithm>
#include <cmath>

#include "rapt/error.h"
#include "tasks/config_file.h"

namespace rapt::inline v1::tasks {
namespace {

struct Trained {
  double accuracy = 0;
  std::int64_t parameters = 0;
  std::int64_t multiply_adds = 0;
  std::int64_t epochs = 0;
  double seconds = 0;
  bool finished = false;
};

ImageRunConfig config_of(const ImageComparison& c, const std::string& task, const ImageContender& contender,
                         std::uint64_t seed) {
  std::map<std::string, std::string> settings = contender.settings;
  for (const auto& [name, text] : comparison_settings(task, c.quick)) settings.emplace(name, text);
  settings["seed"] = std::to_string(seed);
  if (c.epochs > 0) settings["epochs"] = std::to_string(c.epochs);
  return image_config(task, {}, std::move(settings));
}

Trained train(const ImageComparison& c, const std::filesystem::path& directory, const ImageRunConfig& config,
              const training::Observer& observer) {
  const std::shared_ptr<training::RunLock> lock = claim_run(directory);
  ImageRunConfig settings = config;
  if (std::filesystem::exists(directory / "config.json")) {
    settings = read_image_config(directory);
    go_on(settings, directory.string(), config);
  }
  ImageExperiment run(std::move(settings));
  run.write_config(directory);
  training::Trainer trainer(run.objective(), run.training(), directory, c.threads);
  if (std::filesystem::exists(directory / "state.safetensors")) trainer.resume();
  Trained result;
  result.finished = trainer.run(observer) == training::Trainer::End::finished;
  if (!result.finished) return result;
  result.accuracy = run.score(Split::test, trainer.values().data(), c.threads, observer.stop)->get("accuracy");
  if (observer.stop && observer.stop()) result.finished = false;
  result.parameters = run.model().parameters().count();
  result.multiply_adds = run.model().multiply_adds();
  result.epochs = trainer.progress().epoch;
  result.seconds = trainer.progress().seconds;
  return result;
}

}  // namespace

const std::vector<ImageContender>& image_contenders() {
  static const std::vector<ImageContender> list{
      {"quadratic", {{"encoding", "quadratic"}}},   {"gaussian", {{"encoding", "gaussian"}}},
      {"learned_2d", {{"encoding", "learned_2d"}}}, {"learned_2d_positions", {{"encoding", "learned_2d_positions"}}},
      {"absolute", {{"encoding", "absolute"}}},     {"cnn", {{"model", "cnn"}}}};
  return list;
}

std::map<std::string, std::string> comparison_settings(std::string_view task, bool quick) {
  std::map<std::string, std::string> settings;
  if (task == "shapes" && quick) settings = {{"train_size", "200"}, {"valid_size", "50"}, {"test_size", "50"}};
  else if (task == "shapes")
    settings = {{"train_size", "4000"}, {"valid_size", "500"}, {"test_size", "2000"}, {"epochs", "16"}};
  else if (task != "digits") throw Error("expected digits or shapes, got '" + std::string(task) + "'");
  if (quick) settings["epochs"] = "2";
  return settings;
}

double ImageComparisonRow::accuracy() const {
  double sum = 0;
  for (const double a : accuracies) sum += a;
  return accuracies.empty() ? 0 : sum / static_cast<double>(accuracies.size());
}

double ImageComparisonRow::deviation() const {
  if (accuracies.size() < 2) return 0;
  double sum = 0;
  for (const double a : accuracies) sum += (a - accuracy()) * (a - accuracy());
  return std::sqrt(sum / static_cast<double>(accuracies.size() - 1));
}

std::vector<ImageComparisonRow> compare_image_models(const ImageComparison& c, const ImageComparisonProgress& progress,
                                                     const std::function<bool()>& stop) {
  // All settings are checked before the first run.
  std::int64_t total = 0;
  for (const std::string& task : c.tasks)
    for (const ImageContender& contender : image_contenders())
      total += c.seeds * config_of(c, task, contender, c.seed).training.epochs;
  std::vector<ImageComparisonRow> rows;
  std::int64_t done = 0;
  for (const std::string& task : c.tasks)
    for (const ImageContender& contender : image_contenders()) {
      ImageComparisonRow row;
      row.task = task;
      row.model = contender.name;
      for (std::int64_t n = 0; n < c.seeds; ++n) {
        const std::uint64_t seed = c.seed + static_cast<std::uint64_t>(n);
        const std::string name = contender.name + "-" + std::to_string(seed);
        const ImageRunConfig config = config_of(c, task, contender, seed);
        training::Observer observer;
        observer.stop = stop;
        observer.on_step = [&](const training::StepReport& r) {
          if (progress) progress(done + r.epoch - 1, total, task + " " + name, &r);
        };
        if (progress) progress(done, total, task + " " + name, nullptr);
        const Trained trained = train(c, c.directory / task / name, config, observer);
        if (!trained.finished) return rows;
        done += config.training.epochs;
        row.accuracies.push_back(trained.accuracy);
        row.parameters = trained.parameters;
        row.multiply_adds = trained.multiply_adds;
        row.epochs = trained.epochs;
        row.seconds += trained.seconds / static_cast<double>(c.seeds);
      }
      rows.push_back(std::move(row));
    }
  return rows;
}

}  // namespace rapt::inline v1::tasks
