#include "tensor/group_norm.h"

#include <algorithm>
#include <cmath>

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1 {
namespace {

template <class T>
struct GroupNorm {
  Tensor<T> x, y, gain, bias;
  std::int64_t groups = 1, pixels = 0, channels = 0;
  T* mean = nullptr;     // [N, groups]
  T* inverse = nullptr;  // [N, groups]: 1/deviation
  T* work = nullptr;     // [3, channels]

  std::int64_t image() const { return pixels * channels; }
  std::int64_t width() const { return channels / groups; }
  double count() const { return static_cast<double>(pixels * width()); }
  double total(const T* sums, std::int64_t group) const {
    double sum = 0;
    for (std::int64_t c = group * width(); c < (group + 1) * width(); ++c) sum += static_cast<double>(sums[c]);
    return sum;
  }

  // Two passes: the deviations are squared after the mean is known, so that a large mean costs no digits.
  void statistics(std::int64_t n, T epsilon) const {
    T* sums = work;
    T* means = work + channels;
    std::fill_n(sums, channels, T(0));
    for (const T* p = x.data + n * image(); p != x.data + (n + 1) * image(); p += channels)
      for (std::int64_t c = 0; c < channels; ++c) sums[c] += p[c];
    for (std::int64_t g = 0; g < groups; ++g) {
      mean[n * groups + g] = static_cast<T>(total(sums, g) / count());
      std::fill_n(means + g * width(), width(), mean[n * groups + g]);
    }
    std::fill_n(sums, channels, T(0));
    for (const T* p = x.data + n * image(); p != x.data + (n + 1) * image(); p += channels)
      for (std::int64_t c = 0; c < channels; ++c) sums[c] += (p[c] - means[c]) * (p[c] - means[c]);
    for (std::int64_t g = 0; g < groups; ++g)
      inverse[n * groups + g] = static_cast<T>(1 / std::sqrt(total(sums, g) / count() + static_cast<double>(epsilon)));
  }

  void forward(std::int64_t n, T epsilon) const {
    statistics(n, epsilon);
    T* factor = work;
    T* shift = work + channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t g = n * groups + c / width();
      factor[c] = gain.data[c] * inverse[g];
      shift[c] = bias.data[c] - mean[g] * factor[c];
    }
    for (std::int64_t at = n * image(); at < (n + 1) * image(); at += channels)
      for (std::int64_t c = 0; c < channels; ++c) y.data[at + c] = x.data[at + c] * factor[c] + shift[c];
  }

  // With h = (x − mean)/deviation and d = dy·gain: dx = (d − mean d − h · mean(d·h))/deviation.
  void backward(std::int64_t n) const {
    T* plain = work;                // Σ dy, then the factor of dy
    T* along = work + channels;     // Σ dy·(x − mean), then the factor of x
    T* rest = work + 2 * channels;  // the means, then what is added
    std::fill_n(work, 2 * channels, T(0));
    for (std::int64_t c = 0; c < channels; ++c) rest[c] = mean[n * groups + c / width()];
    for (std::int64_t at = n * image(); at < (n + 1) * image(); at += channels)
      for (std::int64_t c = 0; c < channels; ++c) {
        plain[c] += y.grad[at + c];
        along[c] += y.grad[at + c] * (x.data[at + c] - rest[c]);
      }
    for (std::int64_t g = 0; g < groups; ++g) {
      const double scale = static_cast<double>(inverse[n * groups + g]);
      double sum = 0, product = 0;
      for (std::int64_t c = g * width(); c < (g + 1) * width(); ++c) {
        if (bias.grad) bias.grad[c] += plain[c];
        if (gain.grad) gain.grad[c] += along[c] * static_cast<T>(scale);
        sum += static_cast<double>(plain[c]) * static_cast<double>(gain.data[c]);
        product += static_cast<double>(along[c]) * scale * static_cast<double>(gain.data[c]);
      }
      const double slope = product / count() * scale * scale;
      for (std::int64_t c = g * width(); c < (g + 1) * width(); ++c) {
        plain[c] = static_cast<T>(static_cast<double>(gain.data[c]) * scale);
        along[c] = static_cast<T>(-slope);
        rest[c] = static_cast<T>(slope * static_cast<double>(rest[c]) - sum / count() * scale);
      }
    }
    if (!x.grad) return;
    for (std::int64_t at = n * image(); at < (n + 1) * image(); at += channels)
      for (std::int64_t c = 0; c < channels; ++c)
        x.grad[at + c] += y.grad[at + c] * plain[c] + x.data[at + c] * along[c] + rest[c];
  }
};

}  // namespace

template <class T>
Tensor<T> group_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gain, const Tensor<T>& bias,
                     std::int64_t groups, T epsilon) {
  if (x.rank < 2 || !x.is_contiguous() || gain.count() != x.size(-1) || bias.count() != x.size(-1) || groups < 1 ||
      x.size(-1) % groups != 0)
    throw Error(
        "group_norm: expected [N, .., channels], as many gains, and a number of groups that divides the channels, "
        "got " +
        to_string(x) + ", a gain of " + counted(gain.count(), "number") + " and " + counted(groups, "group"));
  GroupNorm<T> job;
  job.x = x;
  job.y = tape.make_like(x);
  job.gain = gain;
  job.bias = bias;
  job.groups = groups;
  job.channels = x.size(-1);
  job.pixels = x.count() / (x.size(0) * job.channels);
  job.mean = tape.scratch(x.size(0) * groups);
  job.inverse = tape.scratch(x.size(0) * groups);
  job.work = tape.scratch(3 * job.channels);
  for (std::int64_t n = 0; n < x.size(0); ++n) job.forward(n, epsilon);
  tape.record([job] {
    for (std::int64_t n = 0; n < job.x.size(0); ++n) job.backward(n);
  });
  return job.y;
}

template Tensor<float> group_norm(Tape<float>&, const Tensor<float>&, const Tensor<float>&, const Tensor<float>&,
                                  std::int64_t, float);
template Tensor<double> group_norm(Tape<double>&, const Tensor<double>&, const Tensor<double>&, const Tensor<double>&,
                                   std::int64_t, double);

}  // namespace rapt::inline v1
