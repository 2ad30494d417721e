#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/cublas.h"
#include "benchmarks/rows.h"

// The rows of `rapt bench --device`: what is measured on a device, and one measurement.
namespace rapt::bench {

// Full and causal attention at several sizes, every mechanism and normaliser, variants, and one query with a long
// cache.
std::vector<std::string> device_names();
// The problems of a plan; bf16 unless it says otherwise. Throws rapt::Error for an unknown name.
std::vector<Spec> device_specs(const Plan& plan);

struct DeviceMeasurement {
  Spec spec;
  Direction direction = Direction::forward;
  double seconds = 0;        // of one call, calls back to back
  double burst_seconds = 0;  // of one call among a few after a rest
  int calls = 0;             // back to back
  double tflops = 0;
  std::optional<double> product_rate;      // TFLOP/s of cuBLAS in the same dtype, just before
  std::optional<double> scaled_dot_ratio;  // scaled_dot's time, same shape and dtype, in turn, ÷ this
  std::optional<double> compiled_ratio;    // the compiled mechanism's time ÷ that of the formula
  std::optional<double> bandwidth;         // GB/s: inputs and outputs once, where there is one query
};

// How long the timed calls run back to back.
struct DeviceEffort {
  double seconds = 0.5;
  std::optional<int> calls;  // exactly this many, however long they take
  bool rest = true;          // before a burst
};

// Both directions of one problem. Throws WrongResult if results are wrong.
std::vector<DeviceMeasurement> measure_on_device(const Spec& spec, const Plan& plan, const Device& device,
                                                 const DeviceEffort& effort, Cublas* products);

// GB/s within the device's memory, read and written bytes counted.
double device_copy_bandwidth(const Device& device, double seconds);

}  // namespace rapt::bench
