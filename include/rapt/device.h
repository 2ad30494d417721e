#pragma once

#include <cstddef>
#include <string>

#include "rapt/api.h"
#include "rapt/view.h"

namespace rapt::inline v1 {

// How many devices of a kind this process can use; 0 where the library is built without them. There is one cpu.
RAPT_API int device_count(Device::Kind kind);

// "NVIDIA H200, compute capability 9.0, 139 GiB"; throws rapt::Error where there is no such device.
RAPT_API std::string describe(const Device& device);

// Memory of a device, for callers that have none of their own. Copies wait until they are done; so does destruction.
class DeviceMemory {
 public:
  RAPT_API DeviceMemory(const Device& device, std::size_t bytes);
  RAPT_API ~DeviceMemory();
  RAPT_API DeviceMemory(DeviceMemory&& other) noexcept;
  RAPT_API DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  void* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  // From and to ordinary memory; `bytes` at most size().
  RAPT_API void upload(const void* from, std::size_t bytes);
  RAPT_API void download(void* to, std::size_t bytes) const;

 private:
  Device device_;
  std::size_t bytes_ = 0;
  void* data_ = nullptr;
};

// Returns when all work started on the device is done.
RAPT_API void synchronize(const Device& device);

}  // namespace rapt::inline v1
