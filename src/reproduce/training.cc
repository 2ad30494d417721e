#include "reproduce/training.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include "rapt/error.h"
#include "tasks/config_file.h"
#include "tasks/sequence_run.h"
#include "tensor/files.h"
#include "tensor/json_text.h"

namespace rapt::reproduce {
namespace {

constexpr std::int64_t kTicks = 1000;  // of the bar, for each model
constexpr std::string_view kValid = "valid_";

std::string command_of(const Job& job, const std::string& run) {
  std::string line = "rapt train " + job.task;
  // The kind of model decides what the other settings are.
  const auto add = [&](const std::string& name, const std::string& value) {
    std::string option = name;
    std::replace(option.begin(), option.end(), '_', '-');
    line += " --" + option + (value == "true" || value == "false" ? "=" : " ") + value;
  };
  if (const auto model = job.options.find("model"); model != job.options.end()) add(model->first, model->second);
  for (const auto& [name, value] : job.options)
    if (name != "model") add(name, value);
  return line + " --out " + run;
}

training::Scores scores_of(const Context& context, const tasks::Experiment& experiment, tasks::Split split,
                           const training::Trainer& trainer) {
  auto scores = experiment.score(split, trainer.values().data(), context.threads, context.stop);
  context.end_if_asked();
  if (!scores) throw Error("reproduce: expected a task with held-out examples, got one without");
  return *scores;
}

// Null where there are none, or where they are damaged: the model is then trained anew.
nlohmann::json run_settings(const std::filesystem::path& run) {
  if (!std::filesystem::exists(run / "config.json")) return nullptr;
  try {
    return tasks::parse_run_config(run / "config.json");
  } catch (const Error&) {
    return nullptr;
  }
}

Trained train(const Context& context, const std::string& group, Job job, std::int64_t done, std::int64_t total) {
  job.options.try_emplace("seed", std::to_string(context.seed));
  Trained result;
  result.name = job.name;
  result.run = context.runs / group / job.name;
  result.command = command_of(job, "runs/" + group + "/" + job.name);
  context.progress(done, total, job.name);
  const std::unique_ptr<tasks::Experiment> experiment = tasks::start_experiment(job.task, {{}, job.options});
  const std::shared_ptr<training::Objective> objective = experiment->objective();
  const bool begun = was_begun(*experiment, result.run);
  training::Trainer trainer(objective, experiment->training(), result.run, context.threads);
  if (begun) trainer.resume();
  result.epochs = epochs_before(result.run, trainer.progress().epoch);
  training::Observer observer;
  observer.on_step = [&](const training::StepReport& step) {
    const double share =
        (static_cast<double>(step.epoch - 1) + static_cast<double>(step.batch) / static_cast<double>(step.batches)) /
        static_cast<double>(experiment->training().epochs);
    context.show(
        done + static_cast<std::int64_t>(share * kTicks), total,
        job.name + ", epoch " + std::to_string(step.epoch) + " of " + std::to_string(experiment->training().epochs));
  };
  observer.stop = context.stop;
  observer.on_epoch = [&](const training::EpochReport& epoch) { result.epochs.push_back(epoch); };
  if (trainer.run(observer) == training::Trainer::End::stopped) throw Interrupted{};
  result.parameters = objective->parameters().count();
  result.best_epoch = trainer.progress().best_epoch;
  result.seconds = trainer.progress().seconds;
  result.valid = scores_of(context, *experiment, tasks::Split::valid, trainer);
  result.test = scores_of(context, *experiment, tasks::Split::test, trainer);
  return result;
}

}  // namespace

bool was_begun(const tasks::Experiment& experiment, const std::filesystem::path& run) {
  const bool has_state = std::filesystem::exists(run / "state.safetensors");
  // Settings, not bytes: a run of an older version has no checksum.
  const nlohmann::json before = run_settings(run);
  std::filesystem::create_directories(run);
  experiment.write_config(run);
  return has_state && before == run_settings(run);
}

std::vector<training::EpochReport> epochs_before(const std::filesystem::path& run, std::int64_t count) {
  std::vector<training::EpochReport> epochs;
  if (count == 0) return epochs;
  const std::filesystem::path path = run / "metrics.jsonl";
  std::istringstream lines(read_file(path));
  for (std::string line; static_cast<std::int64_t>(epochs.size()) < count && std::getline(lines, line);) {
    training::EpochReport& report = epochs.emplace_back();
    const std::string where = path.string() + ": line " + std::to_string(epochs.size());
    const nlohmann::json fields = parse_json(where, line);
    if (!fields.is_object()) throw Error(where + ": expected a JSON object, got something else");
    for (const auto& [name, value] : fields.items()) {
      if ((name == "epoch" || name == "loss" || name.starts_with(kValid)) && !value.is_number())
        throw Error(where + ": " + name + ": expected a number, got something else");
      if (name == "epoch") report.epoch = value;
      if (name == "loss") report.loss = value;
      if (!name.starts_with(kValid)) continue;
      if (!report.valid) report.valid.emplace();
      if (name == "valid_loss") report.valid->loss = value;
      else report.valid->list.push_back({name.substr(kValid.size()), value});
    }
  }
  return epochs;
}

std::vector<Trained> train_all(const Context& context, const std::string& group, const std::vector<Job>& jobs) {
  std::vector<Trained> runs;
  const auto total = static_cast<std::int64_t>(jobs.size()) * kTicks;
  for (const Job& job : jobs)
    runs.push_back(train(context, group, job, static_cast<std::int64_t>(runs.size()) * kTicks, total));
  return runs;
}

std::vector<pictures::Series> validation_series(const std::vector<Trained>& runs, std::string_view score) {
  std::vector<pictures::Series> list;
  for (const Trained& run : runs) {
    pictures::Series series{run.name, {}, {}};
    for (const training::EpochReport& epoch : run.epochs) {
      if (!epoch.valid) continue;
      series.x.push_back(static_cast<double>(epoch.epoch));
      series.y.push_back(epoch.valid->get(score));
    }
    list.push_back(std::move(series));
  }
  return list;
}

std::vector<pictures::Series> loss_series(const std::vector<Trained>& runs) {
  std::vector<pictures::Series> list;
  for (const Trained& run : runs) {
    pictures::Series series{run.name, {}, {}};
    for (const training::EpochReport& epoch : run.epochs) {
      series.x.push_back(static_cast<double>(epoch.epoch));
      series.y.push_back(epoch.loss);
    }
    list.push_back(std::move(series));
  }
  return list;
}

Answer decode(const Trained& trained, const std::string& text) {
  const tasks::SequenceRun run = tasks::load_sequence_run(trained.run);
  Answer answer;
  answer.source = run.config.data.split_source(text);
  const std::vector<int> ids = tasks::Vocabulary(run.config.source_symbols).encode(answer.source);
  const std::vector<std::vector<int>> sources{ids};
  const training::Hypothesis best =
      training::translate({*run.model, run.values.data()}, sources, {}, 1).front().front();
  answer.target = tasks::Vocabulary(run.config.target_symbols).decode(best.tokens);
  answer.text = run.config.data.join_target(answer.target);
  if (run.model->has_attention()) answer.weights = training::align({*run.model, run.values.data()}, {ids, best.tokens});
  return answer;
}

std::string epochs_of(const Trained& run) {
  return std::to_string(run.epochs.size()) + (run.epochs.size() == 1 ? " epoch" : " epochs");
}

const Trained& find(const std::vector<Trained>& runs, std::string_view name) {
  for (const Trained& run : runs)
    if (run.name == name) return run;
  throw Error("reproduce: expected one of the trained models, got " + std::string(name));
}

}  // namespace rapt::reproduce
