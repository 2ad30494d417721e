#pragma once

#include <memory>
#include <string>

#include "rapt/device.h"

namespace rapt::bench {

// Matrix products of cuBLAS, C = A·B of size³ in one dtype with sums in f32: the roof of attention on a device. The
// library is loaded at run time, so the tool does not need it.
class Cublas {
 public:
  Cublas(const Device& device, int size);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // Empty if products can be measured; else why not.
  const std::string& missing() const { return missing_; }
  int size() const { return size_; }
  // TFLOP/s of products back to back for at least this many seconds; f32, bf16 or f16.
  double rate(Dtype dtype, double seconds);

 private:
  struct Functions;

  void multiply(Dtype dtype);

  Device device_;
  int size_;
  std::string missing_;
  std::unique_ptr<Functions> functions_;
  std::unique_ptr<DeviceMemory> a_, b_, c_;
  Dtype filled_ = Dtype::f64;  // the type of the contents of a_ and b_; f64: not filled yet
};

}  // namespace rapt::bench
