#include "reproduce/training.h"

#include <algorithm>

#include "rapt/error.h"
#include "tasks/experiment.h"
#include "tasks/sequence_run.h"

namespace rapt::reproduce {
namespace {

constexpr std::int64_t kTicks = 1000;  // of the bar, for each model

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

training::Scores scores_of(const tasks::Experiment& experiment, tasks::Split split, const training::Trainer& trainer,
                           int threads) {
  auto scores = experiment.score(split, trainer.values().data(), threads, {});
  if (!scores) throw Error("reproduce: expected a task with held-out examples, got one without");
  return *scores;
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
  std::filesystem::create_directories(result.run);
  experiment->write_config(result.run);
  training::Trainer trainer(objective, experiment->training(), result.run, context.threads);
  training::Observer observer;
  observer.on_step = [&](const training::StepReport& step) {
    const double share =
        (static_cast<double>(step.epoch - 1) + static_cast<double>(step.batch) / static_cast<double>(step.batches)) /
        static_cast<double>(experiment->training().epochs);
    context.progress(
        done + static_cast<std::int64_t>(share * kTicks), total,
        job.name + ", epoch " + std::to_string(step.epoch) + " of " + std::to_string(experiment->training().epochs));
  };
  observer.on_epoch = [&](const training::EpochReport& epoch) { result.epochs.push_back(epoch); };
  trainer.run(observer);
  result.parameters = objective->parameters().count();
  result.best_epoch = trainer.progress().best_epoch;
  result.seconds = trainer.progress().seconds;
  result.valid = scores_of(*experiment, tasks::Split::valid, trainer, context.threads);
  result.test = scores_of(*experiment, tasks::Split::test, trainer, context.threads);
  return result;
}

}  // namespace

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
  const training::Hypothesis best = training::translate(*run.model, run.values.data(), sources, {}, 1).front().front();
  answer.target = tasks::Vocabulary(run.config.target_symbols).decode(best.tokens);
  answer.text = run.config.data.join_target(answer.target);
  if (run.model->has_attention()) answer.weights = training::align(*run.model, run.values.data(), {ids, best.tokens});
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
