#include "backends/cuda/device.h"

#include "backends/cuda/memory.h"

namespace rapt::inline v1::cuda {

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

std::string describe(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "device");
  return std::string(properties.name) + ", compute capability " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor) + ", " + std::to_string(properties.totalGlobalMem >> 30) + " GiB";
}

void* allocate(int device, std::size_t bytes) {
  const DeviceScope scope(device);
  void* data = nullptr;
  check(cudaMalloc(&data, bytes > 0 ? bytes : 1), "memory");
  return data;
}

void release(int device, void* data) {
  const DeviceScope scope(device);
  cudaFree(data);
}

void copy_to_device(int device, void* to, const void* from, std::size_t bytes) {
  const DeviceScope scope(device);
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy to the device");
}

void copy_to_host(int device, void* to, const void* from, std::size_t bytes) {
  const DeviceScope scope(device);
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "copy from the device");
}

namespace {

void copy_and_wait(int device, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, void* stream) {
  const DeviceScope scope(device);
  check(cudaMemcpyAsync(to, from, bytes, kind, static_cast<cudaStream_t>(stream)), "copy");
  check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "copy");
}

}  // namespace

void copy_to_device(int device, void* to, const void* from, std::size_t bytes, void* stream) {
  copy_and_wait(device, to, from, bytes, cudaMemcpyHostToDevice, stream);
}

void copy_to_host(int device, void* to, const void* from, std::size_t bytes, void* stream) {
  copy_and_wait(device, to, from, bytes, cudaMemcpyDeviceToHost, stream);
}

void copy_within(int device, void* to, const void* from, std::size_t bytes, void* stream) {
  const DeviceScope scope(device);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)),
        "copy within the device");
}

void synchronize(int device) {
  const DeviceScope scope(device);
  check(cudaDeviceSynchronize(), "work on the device");
}

void synchronize(int device, void* stream) {
  const DeviceScope scope(device);
  check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "work on the device");
}

void* create_event(int device) {
  const DeviceScope scope(device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "event");
  return event;
}

void release_event(int device, void* event) {
  const DeviceScope scope(device);
  cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

void record_event(int device, void* event, void* stream) {
  const DeviceScope scope(device);
  check(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream)), "event");
}

double seconds_between(int device, void* first, void* second) {
  const DeviceScope scope(device);
  check(cudaEventSynchronize(static_cast<cudaEvent_t>(second)), "work on the device");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(first), static_cast<cudaEvent_t>(second)),
        "event");
  return milliseconds / 1e3;
}

}  // namespace rapt::inline v1::cuda
