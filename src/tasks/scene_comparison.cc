#include "tasks/scene_comparison.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>

#include "backends/cpu/parallel.h"
#include "rapt/error.h"
#include "tasks/config_file.h"
#include "tasks/scene_fields.h"
#include "training/trainer.h"

namespace rapt::inline v1::tasks {
namespace {

// One network to train.
struct Job {
  std::size_t kind = 0;  // the row that it belongs to
  std::size_t seed = 0;  // from 0
  SceneRunConfig config;
  std::string name;  // of its directory
  std::int64_t parameters = 0;
  std::int64_t multiply_adds = 0;
  double seconds = 0;
  training::Scores scores;
};

struct Kind {
  std::string name;
  std::string prefix;
  models::Sharing sharing = models::Sharing::none;
  std::string reference = "skip";
  bool single = false;
};

std::vector<Kind> kinds_of(const SceneComparison& comparison) {
  std::vector<Kind> kinds{{"a network for each task", "single", models::Sharing::none, "skip", true},
                          {"one network, no sharing", "none"}};
  for (const std::string& reference : comparison.references)
    kinds.push_back({"shared attention from " + reference, "shared_" + reference, models::Sharing::shared, reference});
  return kinds;
}

std::vector<Job> jobs_of(const SceneComparison& comparison, const std::vector<Kind>& kinds) {
  std::vector<Job> jobs;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind)
    for (std::int64_t seed = 0; seed < comparison.seeds; ++seed) {
      Job job;
      job.kind = kind;
      job.seed = static_cast<std::size_t>(seed);
      job.config = comparison.run;
      job.config.training.seed += static_cast<std::uint64_t>(seed);
      job.config.model.sharing = kinds[kind].sharing;
      job.config.model.reference = kinds[kind].reference;
      const std::string end = "_" + std::to_string(job.config.training.seed);
      job.name = kinds[kind].prefix + end;
      if (!kinds[kind].single) {
        jobs.push_back(job);
        continue;
      }
      for (const models::PixelTask task : models::parse_pixel_tasks(comparison.run.model.tasks)) {
        job.config.model.tasks = models::info_of(task).name;
        job.name = kinds[kind].prefix + "_" + job.config.model.tasks + end;
        jobs.push_back(job);
      }
    }
  return jobs;
}

struct Scenes {
  training::PixelExamples train, valid, test;
};

// False if it was stopped.
bool run_job(Job& job, const Scenes& scenes, const std::filesystem::path& directory,
             const std::function<void(std::int64_t)>& on_steps, const std::function<bool()>& stop) {
  const models::MultitaskNetwork network = make_network(job.config);
  job.parameters = network.parameters().count();
  job.multiply_adds = network.multiply_adds();
  const training::TrainOptions& options = job.config.training;
  const std::shared_ptr<training::RunLock> lock = claim_run(directory);
  if (std::filesystem::exists(directory / "config.json")) {
    SceneRunConfig before = read_scene_config(directory);
    go_on(before, directory.string(), job.config);
  }
  write_config(directory, job.config);
  const auto objective =
      std::make_shared<training::MultitaskObjective>(network, scenes.train, scenes.valid, options.batch, options.seed);
  training::Trainer trainer(objective, options, directory, 1);
  if (std::filesystem::exists(directory / "state.safetensors")) trainer.resume();
  std::int64_t told = 0;
  const auto tell = [&](std::int64_t steps) {
    on_steps(steps - told);
    told = steps;
  };
  tell(trainer.progress().step);
  training::Observer observer;
  observer.on_step = [&](const training::StepReport&) { tell(trainer.progress().step); };
  observer.stop = stop;
  if (trainer.run(observer) == training::Trainer::End::stopped) return false;
  tell(options.epochs * objective->batches());
  job.seconds = trainer.progress().seconds;
  job.scores = training::score(network, trainer.values().data(), scenes.test,
                               training::MultitaskObjective::edge_weights(scenes.train), 1, stop);
  return !stop || !stop();
}

void add_job(ComparedNetwork& row, const Job& job, std::int64_t seeds) {
  if (job.seed == 0) {
    row.parameters += job.parameters;
    row.multiply_adds += job.multiply_adds;
  }
  row.seconds += job.seconds / static_cast<double>(seeds);
  for (const training::Score& score : job.scores.list) {
    auto found = std::find_if(row.scores.begin(), row.scores.end(),
                              [&](const ComparedScore& one) { return one.name == score.name; });
    if (found == row.scores.end()) found = row.scores.insert(found, {score.name, score.form, {}});
    found->values.push_back(score.value);
  }
}

// Seed by seed against the mean of the single-task networks, which are the baseline.
ComparedScore gain_of(const ComparedNetwork& row, const ComparedNetwork& single, std::int64_t seeds) {
  ComparedScore gain{"gain", training::Score::Form::number, {}};
  for (std::size_t n = 0; n < static_cast<std::size_t>(seeds); ++n) {
    double sum = 0;
    for (std::size_t s = 0; s < row.scores.size(); ++s) {
      const double base = single.scores[s].mean();
      const double change = (row.scores[s].values[n] - base) / std::max(std::abs(base), 1e-12);
      sum += higher_is_better(row.scores[s].name) ? change : -change;
    }
    gain.values.push_back(100 * sum / static_cast<double>(row.scores.size()));
  }
  return gain;
}

}  // namespace

double ComparedScore::mean() const {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(1, values.size()));
}

double ComparedScore::deviation() const {
  if (values.size() < 2) return 0;
  const double middle = mean();
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

bool higher_is_better(const std::string& score) { return score.ends_with("_miou") || score.ends_with("_f1"); }

std::vector<ComparedNetwork> compare_scenes(const SceneComparison& comparison, const ComparisonProgress& progress,
                                            const std::function<bool()>& stop) {
  const std::vector<Kind> kinds = kinds_of(comparison);
  std::vector<Job> jobs = jobs_of(comparison, kinds);
  // Settings are checked before anything is rendered.
  std::vector<std::int64_t> costs;
  for (const Job& job : jobs) costs.push_back(make_network(job.config).multiply_adds());
  // Seed by seed, so that an early stop leaves complete seeds; the longest first, so that all threads end together.
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return jobs[a].seed != jobs[b].seed ? jobs[a].seed < jobs[b].seed : costs[a] > costs[b];
  });

  const SceneDataConfig& data = comparison.run.data;
  const Scenes scenes{load_scenes(data, Split::train, comparison.threads),
                      load_scenes(data, Split::valid, comparison.threads),
                      load_scenes(data, Split::test, comparison.threads)};
  const training::TrainOptions& options = comparison.run.training;
  const std::int64_t steps = options.epochs * ((data.train + options.batch - 1) / options.batch);
  const std::int64_t total = steps * static_cast<std::int64_t>(jobs.size());
  std::mutex mutex;
  std::int64_t done = 0;
  std::string last;
  std::atomic<bool> stopped{false};
  parallel_for(static_cast<std::int64_t>(jobs.size()), comparison.threads, [&](std::int64_t n, int) {
    Job& job = jobs[order[static_cast<std::size_t>(n)]];
    const auto on_steps = [&](std::int64_t more) {
      const std::lock_guard lock(mutex);
      done += more;
      if (progress) progress(done, total, last);
    };
    if (stopped || !run_job(job, scenes, comparison.directory / job.name, on_steps, stop)) {
      stopped = true;
      return;
    }
    const std::lock_guard lock(mutex);
    last = job.name;
  });

  if (stopped) return {};
  std::vector<ComparedNetwork> rows;
  for (const Kind& kind : kinds) rows.emplace_back().name = kind.name;
  for (const Job& job : jobs) add_job(rows[job.kind], job, comparison.seeds);
  for (ComparedNetwork& row : rows) row.gain = gain_of(row, rows[0], comparison.seeds);
  return rows;
}

}  // namespace rapt::inline v1::tasks
