#include "training/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "backends/cpu/parallel.h"
#include "tensor/simd/table.h"

namespace rapt::inline v1::training {
namespace {

constexpr std::int64_t kChunk = Processes::kChunk;

}  // namespace

double rate_at(const TrainOptions& options, std::int64_t step, std::int64_t total) {
  const auto n = static_cast<double>(step);
  const auto warmup = static_cast<double>(std::max<std::int64_t>(options.warmup, 1));
  if (options.warmup > 0 && step <= options.warmup) return options.rate * n / warmup;
  switch (options.schedule) {
    case Schedule::constant: return options.rate;
    case Schedule::inverse_sqrt: return options.rate * std::sqrt(warmup / n);
    case Schedule::cosine: break;
  }
  const double rest = std::max(1.0, static_cast<double>(total - options.warmup));
  const double done = std::min(1.0, static_cast<double>(step - options.warmup) / rest);
  return options.rate * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

Update::Update(const TrainOptions& options, std::int64_t size) : options_(options), size_(size) {
  mean_.resize(static_cast<std::size_t>(size));
  if (options.optimizer != Optimizer::sgd) square_.resize(static_cast<std::size_t>(size));
  if (options.average > 0) average_.resize(static_cast<std::size_t>(size));
  norms_.resize(static_cast<std::size_t>(Processes::chunks(size)));
}

double Update::apply(float* values, const std::vector<float*>& parts, double rate, std::int64_t step, int threads,
                     const Processes& processes) {
  const TensorKernels<float>& kernels = tensor_kernels<float>();
  const Range own = processes.own_chunks(size_);
  float* sum = parts[0];
  parallel_for(own.count(), threads, [&](std::int64_t n, int) {
    const std::int64_t chunk = own.begin + n;
    const std::int64_t begin = chunk * kChunk;
    const std::int64_t count = std::min(kChunk, size_ - begin);
    for (std::size_t p = 1; p < parts.size(); ++p) {
      kernels.add(parts[p] + begin, sum + begin, count);
      std::memset(parts[p] + begin, 0, static_cast<std::size_t>(count) * sizeof(float));
    }
    norms_[static_cast<std::size_t>(chunk)] = kernels.sum_of_squares(sum + begin, count);
  });
  processes.share_by_chunk(norms_);
  double squares = 0;
  for (const double n : norms_) squares += n;
  const double norm = std::sqrt(squares);
  const double shrink = options_.clip > 0 && norm > options_.clip ? options_.clip / norm : 1;
  const bool adam = options_.optimizer != Optimizer::sgd;
  // Early on the mean covers fewer steps, so that the first weights are soon forgotten; step 1 replaces it.
  const auto done = static_cast<double>(step - 1);
  const auto new_share = static_cast<float>(1 - std::min(options_.average, done / (done + 10)));
  parallel_for(own.count(), threads, [&](std::int64_t place, int) {
    const std::int64_t chunk = own.begin + place;
    const std::int64_t begin = chunk * kChunk;
    const std::int64_t count = std::min(kChunk, size_ - begin);
    float* grad = sum + begin;
    const auto decay = static_cast<float>(options_.weight_decay);
    if (adam) {
      // Plain Adam adds the decay to the gradient; AdamW applies it separately.
      if (options_.optimizer == Optimizer::adam && decay > 0)
        kernels.add_scaled(static_cast<float>(options_.weight_decay / shrink), values + begin, grad, count);
      AdamArgs<float> args;
      args.count = count;
      args.value = values + begin;
      args.mean = mean_.data() + begin;
      args.square = square_.data() + begin;
      args.grad = grad;
      args.grad_scale = static_cast<float>(shrink);
      args.rate = static_cast<float>(rate);
      args.beta1 = static_cast<float>(options_.beta1);
      args.beta2 = static_cast<float>(options_.beta2);
      args.epsilon = static_cast<float>(options_.epsilon);
      args.decay = options_.optimizer == Optimizer::adamw ? decay : 0.0F;
      args.correction1 = static_cast<float>(1 - std::pow(options_.beta1, static_cast<double>(step)));
      args.correction2 = static_cast<float>(1 - std::pow(options_.beta2, static_cast<double>(step)));
      kernels.adam(args);
    } else {
      float* mean = mean_.data() + begin;
      const auto momentum = static_cast<float>(options_.beta1);
      const auto by = static_cast<float>(shrink);
      const auto speed = static_cast<float>(rate);
      for (std::int64_t n = 0; n < count; ++n) {
        mean[n] = momentum * mean[n] + by * grad[n] + decay * values[begin + n];
        values[begin + n] -= speed * mean[n];
      }
    }
    std::memset(grad, 0, static_cast<std::size_t>(count) * sizeof(float));
    if (average_.empty()) return;
    float* average = average_.data() + begin;
    for (std::int64_t n = 0; n < count; ++n) average[n] += new_share * (values[begin + n] - average[n]);
  });
  processes.share_chunks(values, size_);
  return norm;
}

void Update::share_state(const Processes& processes) {
  for (std::vector<float>* numbers : {&mean_, &square_, &average_}) processes.share_chunks(*numbers);
}

}  // namespace rapt::inline v1::training
