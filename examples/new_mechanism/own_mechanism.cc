// Custom mechanisms in your own program: a struct of hooks with learned parameters, and a formula as a lambda. Both are
// compared with the same attention in plain loops.
#include <rapt/rapt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "kerple.h"

namespace {

constexpr int kHeads = 2, kQueries = 5, kKeys = 7, kDim = 3;

struct Problem {
  std::vector<double> q = numbers(kHeads * kQueries * kDim, 1);
  std::vector<double> k = numbers(kHeads * kKeys * kDim, 2);
  std::vector<double> v = numbers(kHeads * kKeys * kDim, 3);
  std::vector<double> a{0.5, 1.5};  // [H]
  std::vector<double> b{2.0, 0.3};  // [H]

  static std::vector<double> numbers(int count, int seed) {
    std::vector<double> list;
    for (int n = 0; n < count; ++n) list.push_back(std::sin(1.7 * n + seed));
    return list;
  }
};

// The formula of kerple.h, with the whole row of scores stored.
std::vector<double> naive(const Problem& p) {
  std::vector<double> out(kHeads * kQueries * kDim);
  for (int h = 0; h < kHeads; ++h)
    for (int i = 0; i < kQueries; ++i) {
      std::vector<double> weights(kKeys);
      double sum = 0;
      for (int j = 0; j < kKeys; ++j) {
        double dot = 0;
        for (int d = 0; d < kDim; ++d) dot += p.q[(h * kQueries + i) * kDim + d] * p.k[(h * kKeys + j) * kDim + d];
        weights[j] = std::exp(dot / std::sqrt(double{kDim}) - p.a[h] * std::log(1 + p.b[h] * std::abs(i - j)));
        sum += weights[j];
      }
      for (int j = 0; j < kKeys; ++j)
        for (int d = 0; d < kDim; ++d)
          out[(h * kQueries + i) * kDim + d] += weights[j] / sum * p.v[(h * kKeys + j) * kDim + d];
    }
  return out;
}

// What a program writes: the struct, made a score by rapt::custom, and its parameters by name.
rapt::AttendOptions kerple(const Problem& p) {
  rapt::AttendOptions options;
  options.score = rapt::custom(rapt::mechanisms::Kerple{});
  options.score.parameters = {{"a", rapt::view(p.a.data(), {kHeads})}, {"b", rapt::view(p.b.data(), {kHeads})}};
  return options;
}

std::vector<double> attend(const Problem& p, const rapt::AttendOptions& options) {
  std::vector<double> out(kHeads * kQueries * kDim);
  rapt::attend(rapt::view(p.q.data(), {kHeads, kQueries, kDim}), rapt::view(p.k.data(), {kHeads, kKeys, kDim}),
               rapt::view(p.v.data(), {kHeads, kKeys, kDim}), rapt::view(out.data(), {kHeads, kQueries, kDim}),
               options);
  return out;
}

// The gradients of Σ out² / 2, whose gradient by out is out itself.
struct ParameterGradients {
  std::vector<double> a = std::vector<double>(kHeads), b = std::vector<double>(kHeads);
};

ParameterGradients backward(const Problem& p) {
  const std::vector<double> out = attend(p, kerple(p));
  const rapt::ConstView out_view = rapt::view(out.data(), {kHeads, kQueries, kDim});
  ParameterGradients result;
  rapt::Gradients gradients;
  gradients.parameters = {{"a", rapt::view(result.a.data(), {kHeads})}, {"b", rapt::view(result.b.data(), {kHeads})}};
  rapt::attend_backward({.q = rapt::view(p.q.data(), {kHeads, kQueries, kDim}),
                         .k = rapt::view(p.k.data(), {kHeads, kKeys, kDim}),
                         .v = {rapt::view(p.v.data(), {kHeads, kKeys, kDim})}},
                        {out_view}, {out_view}, nullptr, gradients, kerple(p));
  return result;
}

double loss(const Problem& p) {
  double sum = 0;
  for (const double x : naive(p)) sum += x * x / 2;
  return sum;
}

int failures = 0;

void check(const char* what, const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  double worst = 0;
  for (std::size_t n = 0; n < got.size(); ++n) worst = std::max(worst, std::abs(got[n] - expected[n]));
  const bool good = got.size() == expected.size() && worst <= tolerance;
  std::printf("%-34s largest difference %.1e: %s\n", what, worst, good ? "ok" : "FAILED");
  if (!good) ++failures;
}

}  // namespace

int main() {
  Problem p;
  check("struct, forward", attend(p, kerple(p)), naive(p), 1e-12);

  // No derivative was written by hand; differences of the plain loops must agree with the derived ones.
  const ParameterGradients derived = backward(p);
  ParameterGradients numeric;
  const auto differentiate = [&](std::vector<double>& values, std::vector<double>& slopes) {
    for (std::size_t n = 0; n < values.size(); ++n) {
      const double kept = values[n], step = 1e-5;
      values[n] = kept + step;
      const double above = loss(p);
      values[n] = kept - step;
      slopes[n] = (above - loss(p)) / (2 * step);
      values[n] = kept;
    }
  };
  differentiate(p.a, numeric.a);
  differentiate(p.b, numeric.b);
  check("struct, gradient of a", derived.a, numeric.a, 1e-8);
  check("struct, gradient of b", derived.b, numeric.b, 1e-8);

  // A formula without parameters needs no struct. It sees the raw score q·k and the positions of the pair.
  p.a = {0.5, 0.5};
  p.b = {2.0, 2.0};
  rapt::AttendOptions options;
  options.score =
      rapt::custom([](auto raw, const auto& at) { return raw * at.scale - 0.5 * log(2.0 * abs(at.offset()) + 1.0); });
  check("lambda, forward", attend(p, options), naive(p), 1e-12);
  return failures == 0 ? 0 : 1;
}
