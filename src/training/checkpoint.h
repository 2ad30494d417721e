#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "layers/parameters.h"

namespace rapt::inline v1::training {

// How far a run has come. A run resumed from here takes the same steps as one that was never stopped.
struct Progress {
  std::int64_t epoch = 0;  // finished ones
  std::int64_t batch = 0;  // finished ones of the next epoch
  std::int64_t step = 0;   // of the optimiser
  double loss = 0;         // sums over the batches of the unfinished epoch
  std::int64_t units = 0;
  std::int64_t correct = 0;
  double best_score = 0;
  double best_loss = 0;
  std::int64_t best_epoch = 0;  // 0: none yet
  double seconds = 0;
  bool finished = false;
};

// Weights alone, by parameter name.
void save_weights(const std::filesystem::path& path, const layers::Parameters& parameters, const float* values);

// Throws rapt::Error where the file is not a safetensors file or does not hold exactly these parameters in these shapes.
void load_weights(const std::filesystem::path& path, const layers::Parameters& parameters, float* values);

// Everything that a run needs to be resumed, in one file.
struct State {
  std::vector<float>* values = nullptr;
  std::vector<float>* mean = nullptr;
  std::vector<float>* square = nullptr;   // may be empty
  std::vector<float>* average = nullptr;  // may be empty
  Progress progress;
};
void save_state(const std::filesystem::path& path, const layers::Parameters& parameters, const State& state);
void load_state(const std::filesystem::path& path, const layers::Parameters& parameters, State& state);

}  // namespace rapt::inline v1::training
