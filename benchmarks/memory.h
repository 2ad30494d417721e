#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "benchmarks/workload.h"

namespace rapt::bench {

// What forward and backward of one mechanism need, all gradients and parameter gradients asked for.
struct MemoryUse {
  Spec spec;
  std::int64_t array_bytes = 0;  // inputs, outputs, gradients
  std::int64_t baseline_bytes = 0;
  std::int64_t peak_bytes = 0;
  double seconds = 0;

  std::int64_t extra_bytes() const { return peak_bytes - baseline_bytes - array_bytes; }
};

inline constexpr std::int64_t kExtraLimit = std::int64_t{64} << 20;

// In a process of its own, so that nothing of an earlier one is there. Throws rapt::Error where it fails. Call it before
// this process starts threads: they would be missing in the other one. Once stop() says so the other process is ended, and
// Stopped thrown.
MemoryUse measure_memory(const Spec& spec, int threads, const std::function<bool()>& stop = {});

}  // namespace rapt::bench
