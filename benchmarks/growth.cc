#include "benchmarks/growth.h"

#include <algorithm>

namespace rapt::bench {

std::vector<GrowthPoint> measure_growth(const Spec& spec, Direction direction, int threads, double budget) {
  constexpr std::int64_t kFirst = 256;
  const Effort effort{.least_runs = 3, .least_seconds = 0.1, .most_seconds = budget};
  std::vector<GrowthPoint> points;
  const Stopwatch total;
  for (std::int64_t length = std::min(kFirst, spec.sizes.keys); length <= spec.sizes.keys; length *= 2) {
    // Three runs and a warm-up, each up to four times as long as the last.
    if (!points.empty() && total.seconds() + 16 * points.back().seconds.median > budget) break;
    Spec longer = spec;
    longer.sizes.keys = length;
    Workload workload(longer, threads);
    const auto run = [&] {
      if (direction == Direction::forward) workload.forward(spec.path);
      else workload.backward(spec.path);
    };
    if (direction == Direction::backward) workload.prepare_backward(spec.path);
    run();
    points.push_back({length, measure({run}, effort)[0]});
  }
  return points;
}

}  // namespace rapt::bench
