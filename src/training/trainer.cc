#include "training/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <nlohmann/json.hpp>

#include "attend/counted.h"
#include "backends/cpu/parallel.h"
#include "rapt/error.h"
#include "tensor/files.h"
#include "tensor/random.h"
#include "training/not_finite.h"
#include "training/run_lock.h"

namespace rapt::inline v1::training {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr double kSecondsBetweenSaves = 30;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

// What one thread computes of a batch.
struct Trainer::Part {
  std::int64_t units = 0;
  std::vector<float> gradients;
  LossSums sums;
};

Trainer::Trainer(std::shared_ptr<Objective> objective, const TrainOptions& options, std::filesystem::path directory,
                 int threads, const Processes& processes)
    : objective_(std::move(objective)),
      options_(options),
      directory_(std::move(directory)),
      threads_(threads),
      processes_(processes),
      update_(options, objective_->parameters().size()) {
  const auto size = static_cast<std::size_t>(objective_->parameters().size());
  values_.resize(size);
  objective_->parameters().initialize(values_.data(), options.seed);
  for (int t = 0; t < std::max(1, threads); ++t) tapes_.push_back(std::make_unique<Tape<float>>());
  for (std::int64_t p = 0; p < std::max<std::int64_t>(1, options.parts); ++p) {
    parts_.push_back(std::make_unique<Part>());
    parts_.back()->gradients.assign(size, 0.0F);
    gradients_.push_back(parts_.back()->gradients.data());
  }
}

Trainer::~Trainer() = default;

std::int64_t Trainer::total_steps() const { return options_.epochs * objective_->batches(); }

bool Trainer::is_done() const {
  const bool stale = options_.patience > 0 && progress_.epoch - progress_.best_epoch >= options_.patience;
  return stale || progress_.epoch >= options_.epochs;
}

void Trainer::resume() {
  State state{&values_, &update_.mean(), &update_.square(), &update_.average(), {}};
  if (processes_.writes()) load_state(directory_ / "state.safetensors", objective_->parameters(), state);
  for (std::vector<float>* numbers : {state.values, state.mean, state.square, state.average})
    processes_.share(*numbers);
  processes_.share(&state.progress, sizeof state.progress);
  progress_ = state.progress;
  if (progress_.batch > objective_->batches())
    throw Error((directory_ / "state.safetensors").string() + ": expected at most " +
                counted(objective_->batches(), "batch") + " in an epoch, as the data has, got " +
                std::to_string(progress_.batch));
  // Fewer would be said of weights that were trained for more.
  if (const std::int64_t begun = progress_.epoch + (progress_.batch > 0 ? 1 : 0); options_.epochs < begun)
    throw Error(directory_.string() + ": epochs: expected at least " + std::to_string(begun) +
                ", as many as were begun, got " + std::to_string(options_.epochs));
  reload_metrics();
}

// A collective call.
void Trainer::save() {
  update_.share_state(processes_);
  if (!processes_.writes()) return;
  save_state(directory_ / "state.safetensors", objective_->parameters(),
             {&values_, &update_.mean(), &update_.square(), &update_.average(), progress_});
}

// Drops lines of epochs that the state does not include; they are trained again.
void Trainer::reload_metrics() {
  metrics_.clear();
  const std::filesystem::path path = directory_ / "metrics.jsonl";
  if (!std::filesystem::exists(path)) return;
  const std::string text = read_file(path);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (static_cast<std::int64_t>(metrics_.size()) < progress_.epoch)
      metrics_.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

void Trainer::write_metrics(const EpochReport& r) {
  if (!processes_.writes()) return;
  const std::string unit(objective_->unit());
  json line{{"epoch", r.epoch}, {"step", r.step},       {"loss", r.loss}, {unit + "_accuracy", r.accuracy},
            {"rate", r.rate},   {"seconds", r.seconds}, {"best", r.best}, {unit + "s_per_second", r.units_per_second}};
  if (r.valid) {
    line["valid_loss"] = r.valid->loss;
    for (const Score& score : r.valid->list)
      if (score.form != Score::Form::count) line["valid_" + score.name] = score.value;
  }
  if (json more = objective_->record(update_.weights(values_.data())); more.is_object()) line.update(more);
  metrics_.push_back(line.dump());
  std::string text;
  for (const std::string& one : metrics_) text += one + "\n";
  write_file(directory_ / "metrics.jsonl", text);
}

Wishes Trainer::train_batch(std::int64_t n, const Wishes& own) {
  const auto count = static_cast<std::int64_t>(parts_.size());
  std::int64_t units = 0;
  for (std::int64_t p = 0; p < count; ++p) {
    Part& part = *parts_[static_cast<std::size_t>(p)];
    part.units = objective_->prepare(n, p, count);
    units += part.units;
  }
  const float weight = 1.0F / static_cast<float>(units);
  parallel_for(count, threads_, [&](std::int64_t p, int worker) {
    Part& part = *parts_[static_cast<std::size_t>(p)];
    part.sums = {};
    if (part.units == 0 || !processes_.computes(p)) return;
    // Consecutive parts of one thread reuse its memory, which is still in the cache.
    Tape<float>& tape = *tapes_[static_cast<std::size_t>(worker)];
    tape.reset();
    layers::Graph<float> graph(tape, objective_->parameters(), values_.data(), part.gradients.data());
    graph.train(Random(options_.seed, 0x64726f70U, progress_.step, p).next_u64());
    part.sums = objective_->loss(graph, p, weight);
    tape.backward();
  });
  std::vector<LossSums> sums;
  for (const auto& part : parts_) sums.push_back(part->sums);
  const Wishes wishes = processes_.share_sums(sums, own);
  processes_.add_gradients(gradients_, static_cast<std::int64_t>(values_.size()));
  for (const LossSums& part : sums) {
    progress_.loss += part.loss;
    progress_.units += part.tokens;
    progress_.correct += part.correct;
  }
  ++progress_.step;
  // Several processes have already been added up.
  const std::vector<float*> parts(gradients_.begin(), processes_.alone() ? gradients_.end() : gradients_.begin() + 1);
  const double norm = update_.apply(values_.data(), parts, rate_at(options_, progress_.step, total_steps()),
                                    progress_.step, threads_, processes_);
  require_finite(norm + progress_.loss);
  ++progress_.batch;
  return wishes;
}

void Trainer::require_finite(double number, const char* what) const {
  if (!std::isfinite(number))
    throw NotFinite("train: step " + std::to_string(progress_.step) + ": expected " + what + ", got " +
                    name_of_not_finite(number) +
                    "; a smaller learning rate or gradient clipping may help; the last saved state is kept");
}

EpochReport Trainer::finish_epoch(double rate, double units_per_second) {
  EpochReport report;
  report.epoch = progress_.epoch + 1;
  report.step = progress_.step;
  report.loss = progress_.loss / static_cast<double>(std::max<std::int64_t>(1, progress_.units));
  report.accuracy =
      static_cast<double>(progress_.correct) / static_cast<double>(std::max<std::int64_t>(1, progress_.units));
  report.rate = rate;
  report.units_per_second = units_per_second;
  report.seconds = progress_.seconds;
  double score = -report.loss;
  double loss = report.loss;
  update_.share_average(processes_);
  report.valid = objective_->validate(update_.weights(values_.data()), threads_, processes_);
  if (report.valid) {
    score = report.valid->goal;
    loss = report.valid->loss;
  }
  require_finite(loss);
  // The last step may have overflowed after its loss was computed.
  for (const float x : values_) require_finite(x, "finite weights");
  if (progress_.best_epoch == 0 || score > progress_.best_score ||
      (score == progress_.best_score && loss < progress_.best_loss)) {
    report.best = true;
    progress_.best_score = score;
    progress_.best_loss = loss;
    progress_.best_epoch = report.epoch;
    if (processes_.writes())
      save_weights(directory_ / "model.safetensors", objective_->parameters(), update_.weights(values_.data()));
  }
  ++progress_.epoch;
  progress_.batch = 0;
  progress_.loss = 0;
  progress_.units = progress_.correct = 0;
  progress_.finished = is_done();
  return report;
}

Trainer::End Trainer::run(const Observer& observer) {
  const std::shared_ptr<RunLock> lock = processes_.writes() ? RunLock::acquire(directory_) : nullptr;
  Clock::time_point last_save = Clock::now();
  while (!is_done()) {
    objective_->start_epoch(progress_.epoch);
    const Clock::time_point start = Clock::now();
    const double seconds_before = progress_.seconds;
    const std::int64_t units_before = progress_.units;
    double speed = 0;
    while (progress_.batch < objective_->batches()) {
      // Several processes stop and save together, after the step in which one of them asks.
      const auto asked = [&] {
        return Wishes{observer.stop && observer.stop(), seconds_since(last_save) > kSecondsBetweenSaves};
      };
      Wishes wishes = train_batch(progress_.batch, processes_.alone() ? Wishes{} : asked());
      if (processes_.alone()) wishes = asked();
      const double spent = seconds_since(start);
      progress_.seconds = seconds_before + spent;
      speed = static_cast<double>(progress_.units - units_before) / std::max(spent, 1e-9);
      if (observer.on_step) {
        const double units = static_cast<double>(std::max<std::int64_t>(1, progress_.units));
        observer.on_step({progress_.epoch + 1, progress_.batch, objective_->batches(), progress_.loss / units,
                          static_cast<double>(progress_.correct) / units, speed});
      }
      if (wishes.stop || (wishes.save && progress_.batch < objective_->batches())) {
        save();
        last_save = Clock::now();
      }
      if (wishes.stop) return End::stopped;
    }
    const EpochReport report = finish_epoch(rate_at(options_, progress_.step, total_steps()), speed);
    write_metrics(report);
    save();
    last_save = Clock::now();
    if (observer.on_epoch) observer.on_epoch(report);
  }
  if (processes_.writes()) load_weights(directory_ / "model.safetensors", objective_->parameters(), values_.data());
  processes_.share(values_);
  return End::finished;
}

}  // namespace rapt::inline v1::training
