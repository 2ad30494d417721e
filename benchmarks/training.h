#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/roofs.h"
#include "benchmarks/timing.h"
#include "models/config.h"
#include "training/batches.h"
#include "training/processes.h"

// The rows of `rapt bench train`: whole models, trained and decoded by the code of `rapt train` and `decode`.
namespace rapt::bench {

// All sequences have one length, so that another library does exactly the same work.
struct TrainingCase {
  std::string name;
  models::ModelConfig model;
  std::int64_t batch = 64;
  std::int64_t source = 0;     // symbols of a source
  std::int64_t target = 0;     // of a target, the end not counted
  std::int64_t letters = 0;    // different symbols
  std::int64_t decoded = 256;  // sources of a decoding run

  std::int64_t target_steps() const { return target + 1; }
  models::Sizes sizes() const;
  // Random sources, each with its reverse as its target.
  std::vector<training::EncodedExample> examples(std::int64_t count) const;
  // Multiply-adds of `sequences` through the model once, weights and attention; a training step takes three times as
  // many.
  double multiply_adds(std::int64_t sequences) const;
};

enum class Job : std::uint8_t { train, decode };
const char* name_of(Job job);

std::vector<std::string> training_names();
// Those cases, or all. Throws rapt::Error for an unknown name. quick: tiny versions of the models.
std::vector<TrainingCase> training_cases(const std::vector<std::string>& names, bool quick);

struct TrainingRow {
  TrainingCase spec;
  Job job = Job::train;
  std::int64_t parameters = 0;
  double loss = 0;  // nats a token, of the first step; decoding: minus the log probability of a token
  Spread seconds;   // of one step, or of decoding all sources
  // Of all threads together, the mean of the runs: the figure that other programs on a shared machine change least.
  double processor_seconds = 0;
  double gflops = 0;
  double sgemm_rate = 0;

  std::int64_t sequences() const { return job == Job::train ? spec.batch : spec.decoded; }
  std::int64_t tokens() const { return sequences() * spec.target_steps(); }
  std::int64_t all_tokens() const { return sequences() * (spec.source + spec.target_steps()); }
  double per_second(std::int64_t count) const { return static_cast<double>(count) / seconds.median; }
  double fraction() const { return gflops / sgemm_rate; }
};

// Throws WrongResult if results differ from those of the same model in double.
TrainingRow measure_training(const TrainingCase& spec, Job job, int threads, const Effort& effort, Sgemm& sgemm);

// Takes one step each time, in all processes together.
std::function<void()> training_steps(const TrainingCase& spec, int threads, const training::Processes& processes);

}  // namespace rapt::bench
