#include "rapt/device.h"

#include <cstring>
#include <utility>

#include "backends/cuda/device.h"
#include "rapt/error.h"

namespace rapt::inline v1 {
namespace {

bool is_cuda(const Device& device) { return device.kind == Device::Kind::cuda; }

}  // namespace

int device_count(Device::Kind kind) { return kind == Device::Kind::cuda ? cuda::device_count() : 1; }

std::string describe(const Device& device) { return is_cuda(device) ? cuda::describe(device.index) : "cpu"; }

DeviceMemory::DeviceMemory(const Device& device, std::size_t bytes)
    : device_(device),
      bytes_(bytes),
      data_(is_cuda(device) ? cuda::allocate(device.index, bytes) : ::operator new(bytes)) {}

DeviceMemory::~DeviceMemory() {
  if (!data_) return;
  if (is_cuda(device_)) cuda::release(device_.index, data_);
  else ::operator delete(data_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : device_(other.device_), bytes_(std::exchange(other.bytes_, 0)), data_(std::exchange(other.data_, nullptr)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(bytes_, other.bytes_);
  std::swap(data_, other.data_);
  return *this;
}

void DeviceMemory::upload(const void* from, std::size_t bytes) {
  if (bytes > bytes_)
    throw Error("DeviceMemory: upload: expected at most " + std::to_string(bytes_) + " bytes, got " +
                std::to_string(bytes));
  if (is_cuda(device_)) cuda::copy_to_device(device_.index, data_, from, bytes);
  else std::memcpy(data_, from, bytes);
}

void DeviceMemory::download(void* to, std::size_t bytes) const {
  if (bytes > bytes_)
    throw Error("DeviceMemory: download: expected at most " + std::to_string(bytes_) + " bytes, got " +
                std::to_string(bytes));
  if (is_cuda(device_)) cuda::copy_to_host(device_.index, to, data_, bytes);
  else std::memcpy(to, data_, bytes);
}

void synchronize(const Device& device) {
  if (is_cuda(device)) cuda::synchronize(device.index);
}

}  // namespace rapt::inline v1
