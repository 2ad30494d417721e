#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rapt/view.h"

// Device memory: workspaces in the order of a stream, and small tables that stay.
namespace rapt::inline v1::cuda {

// Throws rapt::Error: "attend: cuda: …".
void check(cudaError_t status, const char* what);

// Makes a device current, and restores the previous one.
class DeviceScope {
 public:
  explicit DeviceScope(int index);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
};

struct DeviceTable;

// Pieces of device memory, freed in stream order with this object: kernels launched before may still use them. They
// come from a pool that keeps its memory, so that no call allocates in the steady state.
class Workspace {
 public:
  explicit Workspace(cudaStream_t stream) : stream_(stream) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  cudaStream_t stream() const { return stream_; }
  template <class T>
  T* take(std::int64_t count) {
    return static_cast<T*>(take_bytes(static_cast<std::size_t>(count > 0 ? count : 1) * sizeof(T)));
  }
  // The numbers, copied without waiting for the stream.
  const std::int64_t* upload(std::span<const std::int64_t> numbers);
  // A table of these numbers. Those of recent calls are cached, so that the same numbers are uploaded once.
  const std::int32_t* table(std::span<const std::int32_t> numbers);

 private:
  void* take_bytes(std::size_t bytes);

  cudaStream_t stream_;
  std::vector<void*> pieces_;
  std::vector<std::shared_ptr<const DeviceTable>> tables_;
};

}  // namespace rapt::inline v1::cuda
