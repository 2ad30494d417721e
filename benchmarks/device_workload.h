#pragma once

#include <map>
#include <vector>

#include "benchmarks/workload.h"
#include "rapt/device.h"

namespace rapt::bench {

// A workload whose arrays are on a device: inputs are copied once, results on request.
class DeviceWorkload {
 public:
  DeviceWorkload(const Spec& spec, const Device& device, int threads);

  // Call it before run(): for the backward pass, it makes the arrays and runs the forward pass.
  void prepare(Direction direction);
  // Starts the call on the device's default stream and returns.
  void run(Direction direction);
  // Waits, and copies the results of that direction to the arrays of host(); with gradients, out too.
  void download(Direction direction);

  Workload& host() { return host_; }
  const Workload& host() const { return host_; }

 private:
  DeviceMemory& memory_of(const Array& array);
  template <class V>
  void move(V& view);

  Device device_;
  Workload host_;
  std::map<const void*, DeviceMemory> memories_;  // by the address of host_'s array
  Inputs inputs_;
  Outputs outputs_;
  Gradients gradients_;
  AttendOptions options_;
  std::vector<ConstView> out_, grad_out_;
  Saved saved_;
};

}  // namespace rapt::bench
