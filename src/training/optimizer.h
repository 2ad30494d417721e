#pragma once

#include <vector>

#include "training/options.h"
#include "training/processes.h"

namespace rapt::inline v1::training {

// The rate of a step, counted from 1. `total` steps make up the whole run.
double rate_at(const TrainOptions& options, std::int64_t step, std::int64_t total);

// Sums the parts' gradients, clips, and moves the values. Bits do not depend on the number of threads, nor of processes, which
// each move chunks of their own.
class Update {
 public:
  Update(const TrainOptions& options, std::int64_t size);

  // Adds to `values`; every gradient of `parts` is zero afterwards. Returns the length of the summed gradient.
  double apply(float* values, const std::vector<float*>& parts, double rate, std::int64_t step, int threads,
               const Processes& processes = Processes());

  // Between steps a process knows the state of its own chunks alone. All call these together.
  void share_state(const Processes& processes);
  void share_average(const Processes& processes) { processes.share_chunks(average_); }

  // The weights to use: the running mean of the values if the options ask for one, otherwise `values`.
  const float* weights(const float* values) const { return average_.empty() ? values : average_.data(); }

  // For checkpoints; `square` is empty for sgd, `average` where none is asked for.
  std::vector<float>& mean() { return mean_; }
  std::vector<float>& square() { return square_; }
  std::vector<float>& average() { return average_; }

 private:
  TrainOptions options_;
  std::int64_t size_;
  std::vector<float> mean_, square_, average_;
  std::vector<double> norms_;
};

}  // namespace rapt::inline v1::training
