#include "benchmarks/growth.h"

#include <algorithm>

namespace rapt::bench {

std::vector<GrowthPoint> measure_growth(const Spec& spec, Direction direction, int threads, double budget,
                                        const std::function<bool()>& stop) {
  // Under a narrow mask, short sequences take too little time.
  const bool masked = spec.window || spec.packed > 0 || spec.key_length > 0;
  const std::int64_t first = masked ? std::int64_t{1} << 16 : 256;
  const double limit = masked ? 4 * budget : budget;
  const Effort effort{.least_runs = 3, .least_seconds = 0.1, .most_seconds = limit, .stop = stop};
  std::vector<GrowthPoint> points;
  const Stopwatch total;
  for (std::int64_t length = std::min(first, spec.sizes.keys); length <= spec.sizes.keys; length *= 2) {
    // Three runs and a warm-up, each up to four times as long as the last, or twice. Under a mask the limit is per
    // length: only a pass that is not linear ends the series.
    const double spent = masked ? 0 : total.seconds();
    if (!points.empty() && spent + (masked ? 8 : 16) * points.back().seconds.median > limit) break;
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
