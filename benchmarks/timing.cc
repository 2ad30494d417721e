#include "benchmarks/timing.h"

#include <algorithm>

namespace rapt::bench {

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
  };
  return {at(0.5), at(0.25), at(0.75), static_cast<int>(values.size())};
}

std::vector<Spread> measure(const std::vector<std::function<void()>>& works, const Effort& effort) {
  std::vector<std::vector<double>> times(works.size());
  const Stopwatch whole;
  double first_total = 0;
  for (int runs = 0;; ++runs) {
    const bool enough = runs >= effort.least_runs && first_total >= effort.least_seconds;
    const bool too_long = runs >= 2 && whole.seconds() >= effort.most_seconds;
    if (enough || too_long) break;
    if (effort.stop && effort.stop()) throw Stopped{};
    // Each goes first in turn: on a busy machine the end of a time slice would always hit the same one.
    for (std::size_t n = 0; n < works.size(); ++n) {
      const std::size_t now = (n + static_cast<std::size_t>(runs)) % works.size();
      times[now].push_back(seconds_of(works[now]));
    }
    first_total += times[0].back();
  }
  std::vector<Spread> result;
  for (std::vector<double>& list : times) result.push_back(spread_of(std::move(list)));
  return result;
}

}  // namespace rapt::bench
