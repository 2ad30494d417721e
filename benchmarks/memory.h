#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "benchmarks/workload.h"

namespace rapt::bench {

// The memory of one mechanism's forward and backward pass, with all gradients.
struct MemoryUse {
  Spec spec;
  std::int64_t array_bytes = 0;  // inputs, outputs, gradients
  std::int64_t baseline_bytes = 0;
  std::int64_t peak_bytes = 0;
  double seconds = 0;

  std::int64_t extra_bytes() const { return peak_bytes - baseline_bytes - array_bytes; }
};

inline constexpr std::int64_t kExtraLimit = std::int64_t{64} << 20;

// Measured in a child process, without memory of earlier runs. Throws rapt::Error if that fails. Call it before this
// process starts threads, which the child would lack. After stop() the child is ended and Stopped thrown.
MemoryUse measure_memory(const Spec& spec, int threads, const std::function<bool()>& stop = {});

}  // namespace rapt::bench
