#include "benchmarks/calls.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "benchmarks/check.h"
#include "rapt/plan.h"

namespace rapt::bench {
namespace {

struct Arrays {
  explicit Arrays(const CallSizes& s)
      : q(static_cast<std::size_t>(s.batch * s.heads * s.queries * s.dim)),
        k(static_cast<std::size_t>(s.batch * s.heads * s.keys * s.dim)),
        v(k.size()),
        out(q.size()),
        by_loop(q.size()),
        weights(static_cast<std::size_t>(s.keys)) {
    double angle = 0;
    for (std::vector<float>* array : {&q, &k, &v})
      for (float& x : *array) x = static_cast<float>(std::sin(angle += 0.7));
  }

  std::vector<float> q, k, v, out, by_loop, weights;
};

void loop(const CallSizes& s, Arrays& a) {
  const float scale = 1 / std::sqrt(static_cast<float>(s.dim));
  float* const w = a.weights.data();
  for (std::int64_t h = 0; h < s.batch * s.heads; ++h)
    for (std::int64_t i = 0; i < s.queries; ++i) {
      const float* q = a.q.data() + (h * s.queries + i) * s.dim;
      const float* k = a.k.data() + h * s.keys * s.dim;
      const float* v = a.v.data() + h * s.keys * s.dim;
      float top = -INFINITY, sum = 0;
      for (std::int64_t j = 0; j < s.keys; ++j) {
        float score = 0;
        for (std::int64_t d = 0; d < s.dim; ++d) score += q[d] * k[j * s.dim + d];
        w[j] = score * scale;
        top = std::max(top, w[j]);
      }
      for (std::int64_t j = 0; j < s.keys; ++j) sum += w[j] = std::exp(w[j] - top);
      float* out = a.by_loop.data() + (h * s.queries + i) * s.dim;
      std::fill_n(out, s.dim, 0.0F);
      for (std::int64_t j = 0; j < s.keys; ++j)
        for (std::int64_t d = 0; d < s.dim; ++d) out[d] += w[j] / sum * v[j * s.dim + d];
    }
}

}  // namespace

CallTimes measure_calls(const CallSizes& s, const Effort& effort) {
  Arrays a(s);
  AttendOptions options;
  options.threads = 1;
  const ConstView q = view(a.q.data(), {s.batch, s.heads, s.queries, s.dim});
  const ConstView k = view(a.k.data(), {s.batch, s.heads, s.keys, s.dim});
  const ConstView v = view(a.v.data(), {s.batch, s.heads, s.keys, s.dim});
  const View out = view(a.out.data(), {s.batch, s.heads, s.queries, s.dim});
  rapt::Plan plan(q, k, v, out, options);

  const std::vector<std::function<void()>> calls = {[&] { loop(s, a); }, [&] { attend(q, k, v, out, options); },
                                                    [&] { plan.run(); }};
  calls[0]();
  for (std::size_t n = 1; n < calls.size(); ++n) {
    std::ranges::fill(a.out, NAN);
    calls[n]();
    for (std::size_t i = 0; i < a.out.size(); ++i)
      if (!(std::abs(a.out[i] - a.by_loop[i]) <= 1e-5F))
        throw WrongResult{"out[" + std::to_string(i) + "]: expected " + std::to_string(a.by_loop[i]) + ", got " +
                          std::to_string(a.out[i])};
  }
  // A single call is too short for the clock.
  std::vector<std::function<void()>> works;
  std::vector<double> counts;
  for (const std::function<void()>& call : calls) {
    std::int64_t count = 1;
    for (double seconds = 0; seconds < 1e-3; count *= 2)
      seconds = seconds_of([&] {
        for (std::int64_t n = 0; n < count; ++n) call();
      });
    works.emplace_back([&call, count] {
      for (std::int64_t n = 0; n < count; ++n) call();
    });
    counts.push_back(static_cast<double>(count));
  }
  std::vector<Spread> spreads = measure(works, effort);
  for (std::size_t n = 0; n < spreads.size(); ++n)
    for (double* seconds : {&spreads[n].median, &spreads[n].low, &spreads[n].high}) *seconds /= counts[n];
  return {spreads[0], spreads[1], spreads[2]};
}

}  // namespace rapt::bench
