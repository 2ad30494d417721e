#pragma once

#include <rapt/rapt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

// Helpers that all examples share.

inline std::vector<float> random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& x : numbers) x = normal(generator);
  return numbers;
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t n = 0; n < std::min(a.size(), b.size()); ++n)
    largest = std::max(largest, std::abs(static_cast<double>(a[n]) - static_cast<double>(b[n])));
  return largest;
}

// The exit status of an example.
inline int finish(const char* what, bool holds) {
  std::printf("%s: %s\n", what, holds ? "yes" : "NO");
  return holds ? 0 : 1;
}
