#pragma once

#include <cstdint>

namespace rapt::inline v1::training {

enum class Optimizer : std::uint8_t { adam, adamw, sgd };
enum class Schedule : std::uint8_t { constant, inverse_sqrt, cosine };

// How a model is trained. All of it is part of a run: the same options give the same weights, bit for bit.
struct TrainOptions {
  Optimizer optimizer = Optimizer::adam;
  Schedule schedule = Schedule::constant;
  double rate = 1e-3;  // the highest
  double beta1 = 0.9;  // the momentum of sgd
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  // The weights that are kept are a running mean over about 1/(1 − average) steps; 0: the last ones.
  double average = 0;
  double clip = 1;  // norm that gradients are clipped to; 0: none
  double label_smoothing = 0;
  std::int64_t warmup = 0;  // steps of a rising rate
  std::int64_t epochs = 30;
  std::int64_t batch = 64;
  // Parts that a batch is computed in, each on one thread. Fixed by the run, so that threads change no bit.
  std::int64_t parts = 4;
  std::int64_t patience = 0;  // epochs without a better validation score before it ends; 0: all epochs
  std::uint64_t seed = 1;
};

}  // namespace rapt::inline v1::training
