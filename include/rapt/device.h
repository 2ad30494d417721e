#pragma once

#include <cstddef>
#include <string>

#include "rapt/api.h"
#include "rapt/view.h"

namespace rapt::inline v1 {

// The number of devices of a kind that this process can use; 0 if the library is built without them. There is one cpu.
RAPT_API int device_count(Device::Kind kind);

// "NVIDIA H200, compute capability 9.0, 139 GiB"; throws rapt::Error if there is no such device.
RAPT_API std::string describe(const Device& device);

// Device memory, for callers that have none of their own. Copies and destruction block until they are done.
class DeviceMemory {
 public:
  RAPT_API DeviceMemory(const Device& device, std::size_t bytes);
  RAPT_API ~DeviceMemory();
  RAPT_API DeviceMemory(DeviceMemory&& other) noexcept;
  RAPT_API DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  void* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  // From and to host memory; `bytes` at most size().
  RAPT_API void upload(const void* from, std::size_t bytes);
  RAPT_API void download(void* to, std::size_t bytes) const;
  // From memory of the same device, in stream order, without blocking; `bytes` at most the size of both.
  RAPT_API void copy_from(const DeviceMemory& other, std::size_t bytes, void* stream = nullptr);

 private:
  Device device_;
  std::size_t bytes_ = 0;
  void* data_ = nullptr;
};

// Returns when all work started on the device is done.
RAPT_API void synchronize(const Device& device);

// The time a device takes for the work put on a stream between start() and stop(); on a cpu, the time between them.
class DeviceTimer {
 public:
  RAPT_API explicit DeviceTimer(const Device& device, void* stream = nullptr);
  RAPT_API ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  RAPT_API void start();
  RAPT_API void stop();
  // Blocks until the device is done with it.
  RAPT_API double seconds() const;

 private:
  Device device_;
  void* stream_ = nullptr;
  void* events_[2] = {};
  double times_[2] = {};
};

}  // namespace rapt::inline v1
