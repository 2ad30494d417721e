#include "benchmarks/training.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "benchmarks/check.h"
#include "rapt/error.h"
#include "tensor/random.h"
#include "tensor/token_ids.h"
#include "training/sequence_objective.h"
#include "training/trainer.h"

namespace rapt::bench {
namespace {

using models::Kind;
using models::SequenceModel;
using training::Batch;
using training::EncodedExample;

constexpr std::uint64_t kSeed = 1;

TrainingCase lstm(const char* name, std::int64_t embedding, std::int64_t hidden) {
  TrainingCase spec;
  spec.name = name;
  spec.model.kind = Kind::seq2seq;
  spec.model.seq2seq.embedding = embedding;
  spec.model.seq2seq.hidden = hidden;
  return spec;
}

std::vector<TrainingCase> all_cases() {
  TrainingCase small = lstm("small_lstm", 64, 64);
  small.source = small.target = 11;
  small.letters = 4;
  TrainingCase medium = lstm("medium_lstm", 256, 512);
  medium.source = medium.target = 20;
  medium.letters = 40;
  TrainingCase transformer;
  transformer.name = "small_transformer";
  transformer.model.kind = Kind::transformer;
  transformer.model.transformer.width = 256;
  transformer.model.transformer.heads = 4;
  transformer.model.transformer.inner = 1024;
  transformer.model.transformer.layers = 4;
  transformer.model.transformer.dropout = 0;
  transformer.source = transformer.target = 22;
  transformer.letters = 40;
  return {small, medium, transformer};
}

void make_tiny(TrainingCase& spec) {
  spec.batch = 8;
  spec.source = spec.target = 5;
  spec.decoded = 12;
  spec.model.seq2seq.embedding = spec.model.seq2seq.hidden = 16;
  spec.model.transformer.width = 16;
  spec.model.transformer.inner = 32;
  spec.model.transformer.layers = 1;
}

[[noreturn]] void refuse(const TrainingCase& spec, const char* what, double got, double right) {
  throw WrongResult{spec.name + ": " + what + " is " + std::to_string(got) + ", in double " + std::to_string(right)};
}

// The first steps of training, in double and by definition: loss, gradient, clipping and Adam.
class Reference {
 public:
  Reference(const SequenceModel& model, const training::TrainOptions& options, std::span<const EncodedExample> examples)
      : model_(model), options_(options) {
    const auto size = static_cast<std::size_t>(model.parameters().size());
    std::vector<float> values(size);
    model.parameters().initialize(values.data(), options.seed);
    values_.assign(values.begin(), values.end());
    training::make_batch(examples, batch_);
  }

  // Returns the loss before the step.
  double step() {
    Tape<double> tape;
    std::vector<double> gradient(values_.size());
    layers::Graph<double> graph(tape, model_.parameters(), values_.data(), gradient.data());
    const Tensor<double> logits = model_.logits<double>(graph, batch_);
    const double tokens = static_cast<double>(batch_.target_tokens());
    const double loss = cross_entropy(tape, logits, batch_.target_out, kPad, 0.0, 1 / tokens).loss / tokens;
    tape.backward();
    double squares = 0;
    for (const double g : gradient) squares += g * g;
    const double shrink = std::min(1.0, options_.clip / std::sqrt(squares));
    // The first step of Adam: both means are corrected to the gradient itself.
    for (std::size_t n = 0; n < values_.size(); ++n)
      values_[n] -= options_.rate * shrink * gradient[n] / (std::abs(shrink * gradient[n]) + options_.epsilon);
    return loss;
  }

 private:
  const SequenceModel& model_;
  const training::TrainOptions& options_;
  std::vector<double> values_;
  Batch batch_;
};

training::TrainOptions options_of(const TrainingCase& spec) {
  training::TrainOptions options;
  options.batch = spec.batch;
  options.seed = kSeed;
  return options;
}

class TrainRunner {
 public:
  TrainRunner(const TrainingCase& spec, int threads, const training::Processes& processes = training::Processes())
      : spec_(spec),
        options_(options_of(spec)),
        model_(spec.model, spec.sizes()),
        trainer_(std::make_shared<training::SequenceObjective>(
                     model_, training::Batches(spec.examples(spec.batch), spec.batch, kSeed),
                     std::vector<training::Question>{}, options_.label_smoothing),
                 options_, {}, threads, processes) {}

  const SequenceModel& model() const { return model_; }
  void operator()() { trainer_.train_batch(0); }

  double check() {
    Reference reference(model_, options_, spec_.examples(spec_.batch));
    const double first = loss_of_step();
    const double right = reference.step();
    if (!(std::abs(first - right) <= 1e-5 * right)) refuse(spec_, "the loss", first, right);
    // The second loss depends on every gradient; if one is nearly 0, rounding may flip the sign of Adam's first step.
    const double second = loss_of_step();
    const double next = reference.step();
    if (!(std::abs(second - next) <= 1e-2 * std::abs(right - next) + 1e-4 * next))
      refuse(spec_, "the loss after one step", second, next);
    return first;
  }

 private:
  double loss_of_step() {
    const training::Progress before = trainer_.progress();
    (*this)();
    const training::Progress& after = trainer_.progress();
    return (after.loss - before.loss) / static_cast<double>(after.units - before.units);
  }

  const TrainingCase& spec_;
  training::TrainOptions options_;
  SequenceModel model_;
  training::Trainer trainer_;
};

class DecodeRunner {
 public:
  DecodeRunner(const TrainingCase& spec, int threads)
      : spec_(spec), model_(spec.model, spec.sizes()), threads_(threads) {
    values_.resize(static_cast<std::size_t>(model_.parameters().size()));
    model_.parameters().initialize(values_.data(), kSeed);
    never_end();
    for (EncodedExample& example : spec.examples(spec.decoded)) sources_.push_back(std::move(example.source));
  }

  const SequenceModel& model() const { return model_; }
  void operator()() { answers_ = training::translate({model_, values_.data()}, sources_, {}, threads_, spec_.target); }

  // Checks a few answers against the model in double, given the same tokens.
  double check() {
    (*this)();
    const std::size_t count = std::min<std::size_t>(sources_.size(), 8);
    double total = 0;
    std::vector<EncodedExample> examples;
    for (std::size_t n = 0; n < count; ++n) {
      const models::Hypothesis& best = answers_[n].at(0);
      if (static_cast<std::int64_t>(best.tokens.size()) != spec_.target)
        refuse(spec_, "the length of an answer", static_cast<double>(best.tokens.size()),
               static_cast<double>(spec_.target));
      examples.push_back({sources_[n], best.tokens});
      total += best.log_probability;
    }
    Batch batch;
    training::make_batch(examples, batch);
    // The answers were cut off: their ends do not count.
    std::fill(batch.target_out.end() - batch.size, batch.target_out.end(), kPad);
    const std::vector<double> values(values_.begin(), values_.end());
    Tape<double> tape(false);
    layers::Graph<double> graph(tape, model_.parameters(), values.data(), nullptr);
    const LossSums sums = cross_entropy(tape, model_.logits<double>(graph, batch), batch.target_out, kPad, 0.0, 0.0);
    if (!(std::abs(sums.loss + total) <= 1e-4 * sums.loss))
      refuse(spec_, "minus the log probability", -total, sums.loss);
    return sums.loss / static_cast<double>(sums.tokens);
  }

 private:
  // Every answer has the same length: the score of the end is at most 0, and others are above it.
  void never_end() {
    for (const layers::Parameter& p : model_.parameters().list()) {
      float* place = values_.data() + p.offset;
      if (p.name == "decoder.output.bias") place[kEnd] = -1e4F;
      const std::int64_t width = p.shape.back();
      if (spec_.model.kind == Kind::transformer && p.name == "decoder.embedding")
        std::fill_n(place + kEnd * width, width, 0.0F);
    }
  }

  const TrainingCase& spec_;
  SequenceModel model_;
  int threads_;
  std::vector<float> values_;
  std::vector<std::vector<int>> sources_;
  std::vector<std::vector<models::Hypothesis>> answers_;
};

template <class Runner>
TrainingRow measured(Runner& runner, TrainingRow row, const Effort& effort, Sgemm& sgemm) {
  row.parameters = runner.model().parameters().count();
  row.loss = runner.check();
  std::vector<double> rates;
  const auto take_rates = [&] {
    for (int run = 0; run < 2; ++run) rates.push_back(sgemm.run());
    let_sgemm_rest();
  };
  take_rates();
  runner();
  const std::clock_t before = std::clock();
  row.seconds = measure({[&] { runner(); }}, effort)[0];
  row.processor_seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC / row.seconds.runs;
  take_rates();
  row.sgemm_rate = spread_of(rates).median;
  const double passes = row.job == Job::train ? 3 : 1;
  row.gflops = 2 * passes * row.spec.multiply_adds(row.sequences()) / row.seconds.median / 1e9;
  return row;
}

}  // namespace

models::Sizes TrainingCase::sizes() const {
  const std::int64_t symbols = kFirstSymbol + letters;
  return {symbols, symbols, std::max(source, target_steps()), target_steps()};
}

std::vector<EncodedExample> TrainingCase::examples(std::int64_t count) const {
  Random random(kSeed, 0x62656e6368);
  std::vector<EncodedExample> list(static_cast<std::size_t>(count));
  for (EncodedExample& example : list) {
    for (std::int64_t n = 0; n < source; ++n)
      example.source.push_back(kFirstSymbol + static_cast<int>(random.below(static_cast<std::uint64_t>(letters))));
    example.target.assign(example.source.rbegin(), example.source.rend());
  }
  return list;
}

double TrainingCase::multiply_adds(std::int64_t sequences) const {
  const auto s = static_cast<double>(source);
  const auto t = static_cast<double>(target_steps());
  const auto symbols = static_cast<double>(kFirstSymbol + letters);
  double each = 0;
  if (model.kind == Kind::seq2seq) {
    const auto e = static_cast<double>(model.seq2seq.embedding);
    const auto h = static_cast<double>(model.seq2seq.hidden);
    // The encoder starts from zeros: its first step has no recurrent product.
    each = s * e * 4 * h + (s - 1) * h * 4 * h + t * (e + h) * 4 * h + 2 * s * t * h + t * 2 * h * h + t * h * symbols;
  } else {
    const auto w = static_cast<double>(model.transformer.width);
    const auto inner = static_cast<double>(model.transformer.inner);
    const double encoder = s * (4 * w * w + 2 * w * inner) + 2 * s * s * w;
    const double self = t * 4 * w * w + t * (t + 1) * w;
    const double cross = 2 * (s + t) * w * w + 2 * s * t * w;
    each = model.transformer.layers * (encoder + self + cross + t * 2 * w * inner) + t * w * symbols;
  }
  return each * static_cast<double>(sequences);
}

const char* name_of(Job job) { return job == Job::train ? "train" : "decode"; }

std::vector<std::string> training_names() {
  std::vector<std::string> names;
  for (const TrainingCase& spec : all_cases()) names.push_back(spec.name);
  return names;
}

std::vector<TrainingCase> training_cases(const std::vector<std::string>& names, bool quick) {
  std::vector<TrainingCase> cases = all_cases();
  for (const std::string& name : names) {
    if (std::ranges::any_of(cases, [&](const TrainingCase& spec) { return spec.name == name; })) continue;
    std::string list;
    for (const TrainingCase& spec : cases) list += (list.empty() ? "" : ", ") + spec.name;
    throw Error("bench train: expected a model (" + list + "), got '" + name + "'");
  }
  std::erase_if(cases, [&](const TrainingCase& spec) {
    return !names.empty() && std::ranges::find(names, spec.name) == names.end();
  });
  if (quick)
    for (TrainingCase& spec : cases) make_tiny(spec);
  return cases;
}

std::function<void()> training_steps(const TrainingCase& spec, int threads, const training::Processes& processes) {
  struct Steps {
    TrainingCase spec;
    TrainRunner runner;
    Steps(const TrainingCase& s, int n, const training::Processes& p) : spec(s), runner(spec, n, p) {}
  };
  return [steps = std::make_shared<Steps>(spec, threads, processes)] { steps->runner(); };
}

TrainingRow measure_training(const TrainingCase& spec, Job job, int threads, const Effort& effort, Sgemm& sgemm) {
  TrainingRow row;
  row.spec = spec;
  row.job = job;
  if (job == Job::train) {
    TrainRunner runner(spec, threads);
    return measured(runner, row, effort, sgemm);
  }
  DecodeRunner runner(spec, threads);
  return measured(runner, row, effort, sgemm);
}

}  // namespace rapt::bench
