#include "training/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <nlohmann/json.hpp>

#include "kernels/parallel.h"
#include "rapt/error.h"
#include "tensor/files.h"
#include "tensor/random.h"
#include "tensor/token_ids.h"

namespace rapt::training {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr double kSecondsBetweenSaves = 30;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

// What one thread computes of a batch: its examples, its tape, its gradients.
struct Trainer::Part {
  Batch batch;
  Tape<float> tape;
  std::vector<float> gradients;
  LossSums sums;
};

Trainer::Trainer(const SequenceModel& model, const TrainOptions& options, Batches batches, std::vector<Question> valid,
                 std::filesystem::path directory, int threads)
    : model_(model),
      options_(options),
      batches_(std::move(batches)),
      valid_(std::move(valid)),
      directory_(std::move(directory)),
      threads_(threads),
      update_(options, model.parameters().size()) {
  const auto size = static_cast<std::size_t>(model.parameters().size());
  values_.resize(size);
  model.parameters().initialize(values_.data(), options.seed);
  for (std::int64_t p = 0; p < std::max<std::int64_t>(1, options.parts); ++p) {
    parts_.push_back(std::make_unique<Part>());
    parts_.back()->gradients.assign(size, 0.0F);
    gradients_.push_back(parts_.back()->gradients.data());
  }
}

Trainer::~Trainer() = default;

std::int64_t Trainer::total_steps() const { return options_.epochs * batches_.count(); }

bool Trainer::is_done() const {
  const bool stale = options_.patience > 0 && progress_.epoch - progress_.best_epoch >= options_.patience;
  return stale || progress_.epoch >= options_.epochs;
}

void Trainer::resume() {
  State state{&values_, &update_.mean(), &update_.square(), {}};
  load_state(directory_ / "state.safetensors", model_.parameters(), state);
  progress_ = state.progress;
  if (progress_.batch > batches_.count())
    throw Error((directory_ / "state.safetensors").string() + ": got a run of more batches than the data has");
  reload_metrics();
}

void Trainer::save() {
  save_state(directory_ / "state.safetensors", model_.parameters(),
             {&values_, &update_.mean(), &update_.square(), progress_});
}

// Lines of epochs that the state does not know are made again.
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
  json line{{"epoch", r.epoch},     {"step", r.step},
            {"loss", r.loss},       {"token_accuracy", r.token_accuracy},
            {"rate", r.rate},       {"tokens_per_second", r.tokens_per_second},
            {"seconds", r.seconds}, {"best", r.best}};
  if (r.validated) {
    line["valid_loss"] = r.valid.loss;
    line["valid_token_accuracy"] = r.valid.scores.token_accuracy();
    line["valid_exact_match"] = r.valid.scores.exact_match();
    line["valid_symbol_error"] = r.valid.scores.symbol_error_rate();
  }
  metrics_.push_back(line.dump());
  std::string text;
  for (const std::string& one : metrics_) text += one + "\n";
  write_file(directory_ / "metrics.jsonl", text);
}

void Trainer::train_batch(std::int64_t n) {
  const auto count = static_cast<std::int64_t>(parts_.size());
  std::int64_t tokens = 0;
  for (std::int64_t p = 0; p < count; ++p) {
    Part& part = *parts_[static_cast<std::size_t>(p)];
    batches_.make_part(n, p, count, part.batch);
    tokens += part.batch.size > 0 ? part.batch.target_tokens() : 0;
  }
  const float weight = 1.0F / static_cast<float>(tokens);
  parallel_for(count, threads_, [&](std::int64_t p, int) {
    Part& part = *parts_[static_cast<std::size_t>(p)];
    part.sums = {};
    if (part.batch.size == 0) return;
    part.tape.reset();
    layers::Graph<float> graph(part.tape, model_.parameters(), values_.data(), part.gradients.data());
    graph.train(Random(options_.seed, 0x64726f70U, progress_.step, p).next_u64());
    const Tensor<float> logits = model_.logits<float>(graph, part.batch);
    part.sums = cross_entropy(part.tape, logits, part.batch.target_out, kPad,
                              static_cast<float>(options_.label_smoothing), weight);
    part.tape.backward();
  });
  for (const auto& part : parts_) {
    progress_.loss += part->sums.loss;
    progress_.tokens += part->sums.tokens;
    progress_.correct += part->sums.correct;
  }
  ++progress_.step;
  const double norm = update_.apply(values_.data(), gradients_, rate_at(options_, progress_.step, total_steps()),
                                    progress_.step, threads_);
  require_finite(norm + progress_.loss);
  ++progress_.batch;
}

void Trainer::require_finite(double number) const {
  if (!std::isfinite(number))
    throw Error("train: the loss is no longer a number at step " + std::to_string(progress_.step) +
                "; a smaller --rate or a --clip may help; the last saved state is kept");
}

EpochReport Trainer::finish_epoch(double rate, double tokens_per_second) {
  EpochReport report;
  report.epoch = progress_.epoch + 1;
  report.step = progress_.step;
  report.loss = progress_.loss / static_cast<double>(std::max<std::int64_t>(1, progress_.tokens));
  report.token_accuracy =
      static_cast<double>(progress_.correct) / static_cast<double>(std::max<std::int64_t>(1, progress_.tokens));
  report.rate = rate;
  report.tokens_per_second = tokens_per_second;
  report.seconds = progress_.seconds;
  double score = -report.loss;
  double loss = report.loss;
  if (!valid_.empty()) {
    report.validated = true;
    report.valid = validate(model_, values_.data(), valid_, {}, threads_);
    score = report.valid.scores.exact_match();
    loss = report.valid.loss;
  }
  require_finite(loss);
  if (progress_.best_epoch == 0 || score > progress_.best_score ||
      (score == progress_.best_score && loss < progress_.best_loss)) {
    report.best = true;
    progress_.best_score = score;
    progress_.best_loss = loss;
    progress_.best_epoch = report.epoch;
    save_weights(directory_ / "model.safetensors", model_.parameters(), values_.data());
  }
  ++progress_.epoch;
  progress_.batch = 0;
  progress_.loss = 0;
  progress_.tokens = progress_.correct = 0;
  progress_.finished = is_done();
  return report;
}

Trainer::End Trainer::run(const Observer& observer) {
  Clock::time_point last_save = Clock::now();
  while (!is_done()) {
    batches_.start_epoch(progress_.epoch);
    const Clock::time_point start = Clock::now();
    const double seconds_before = progress_.seconds;
    const std::int64_t tokens_before = progress_.tokens;
    double speed = 0;
    while (progress_.batch < batches_.count()) {
      train_batch(progress_.batch);
      const double spent = seconds_since(start);
      progress_.seconds = seconds_before + spent;
      speed = static_cast<double>(progress_.tokens - tokens_before) / std::max(spent, 1e-9);
      if (observer.on_step) {
        const double tokens = static_cast<double>(std::max<std::int64_t>(1, progress_.tokens));
        observer.on_step({progress_.epoch + 1, progress_.batch, batches_.count(), progress_.loss / tokens,
                          static_cast<double>(progress_.correct) / tokens, speed});
      }
      const bool stop = observer.stop && observer.stop();
      if (stop || (seconds_since(last_save) > kSecondsBetweenSaves && progress_.batch < batches_.count())) {
        save();
        last_save = Clock::now();
      }
      if (stop) return End::stopped;
    }
    const EpochReport report = finish_epoch(rate_at(options_, progress_.step, total_steps()), speed);
    write_metrics(report);
    save();
    last_save = Clock::now();
    if (observer.on_epoch) observer.on_epoch(report);
  }
  load_weights(directory_ / "model.safetensors", model_.parameters(), values_.data());
  return End::finished;
}

}  // namespace rapt::training
