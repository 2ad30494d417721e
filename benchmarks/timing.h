#pragma once

#include <chrono>
#include <functional>
#include <vector>

namespace rapt::bench {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point started_ = Clock::now();
};

inline double seconds_of(const std::function<void()>& work) {
  const Stopwatch watch;
  work();
  return watch.seconds();
}

// The median of some measurements, and their quartiles.
struct Spread {
  double median = 0;
  double low = 0;   // the lower quartile
  double high = 0;  // the upper quartile
  int runs = 0;
};

Spread spread_of(std::vector<double> values);

struct Effort {
  int least_runs = 5;
  double least_seconds = 0.5;
  double most_seconds = 20;      // ends the repeats even before least_runs, but not before two
  std::function<bool()> stop{};  // asked between the repeats
};

// Thrown when stop() says so.
struct Stopped {};

// Repeats all of them in turn, so that disturbances affect each alike; the first decides when to stop. Throws Stopped.
std::vector<Spread> measure(const std::vector<std::function<void()>>& works, const Effort& effort);

}  // namespace rapt::bench
