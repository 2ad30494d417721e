#include "rapt/device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "attend/counted.h"
#include "backends/cuda/device.h"
#include "rapt/error.h"

namespace rapt::inline v1 {
namespace {

bool is_cuda(const Device& device) { return device.kind == Device::Kind::cuda; }

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

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
    throw Error("DeviceMemory: upload: expected at most " + counted(bytes_, "byte") + ", got " + std::to_string(bytes));
  if (is_cuda(device_)) cuda::copy_to_device(device_.index, data_, from, bytes);
  else std::memcpy(data_, from, bytes);
}

void DeviceMemory::download(void* to, std::size_t bytes) const {
  if (bytes > bytes_)
    throw Error("DeviceMemory: download: expected at most " + counted(bytes_, "byte") + ", got " +
                std::to_string(bytes));
  if (is_cuda(device_)) cuda::copy_to_host(device_.index, to, data_, bytes);
  else std::memcpy(to, data_, bytes);
}

void DeviceMemory::copy_from(const DeviceMemory& other, std::size_t bytes, void* stream) {
  if (other.device_ != device_)
    throw Error("DeviceMemory: copy_from: expected memory of " + to_string(device_) + ", got memory of " +
                to_string(other.device_));
  if (const std::size_t most = std::min(bytes_, other.bytes_); bytes > most)
    throw Error("DeviceMemory: copy_from: expected at most " + counted(most, "byte") + ", got " +
                std::to_string(bytes));
  if (is_cuda(device_)) cuda::copy_within(device_.index, data_, other.data_, bytes, stream);
  else std::memcpy(data_, other.data_, bytes);
}

void synchronize(const Device& device) {
  if (is_cuda(device)) cuda::synchronize(device.index);
}

DeviceTimer::DeviceTimer(const Device& device, void* stream) : device_(device), stream_(stream) {
  if (!is_cuda(device)) return;
  events_[0] = cuda::create_event(device.index);
  events_[1] = cuda::create_event(device.index);
}

DeviceTimer::~DeviceTimer() {
  for (void* event : events_)
    if (event) cuda::release_event(device_.index, event);
}

void DeviceTimer::start() {
  if (events_[0]) cuda::record_event(device_.index, events_[0], stream_);
  else times_[0] = now();
}

void DeviceTimer::stop() {
  if (events_[1]) cuda::record_event(device_.index, events_[1], stream_);
  else times_[1] = now();
}

double DeviceTimer::seconds() const {
  return events_[1] ? cuda::seconds_between(device_.index, events_[0], events_[1]) : times_[1] - times_[0];
}

}  // namespace rapt::inline v1
