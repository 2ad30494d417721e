#pragma once

#include <cstddef>
#include <string>

// What rapt/device.h needs of CUDA. In a build without it there are no devices, and the rest throws.
namespace rapt::inline v1::cuda {

int device_count();
std::string describe(int device);
void* allocate(int device, std::size_t bytes);
void release(int device, void* data);
void copy_to_device(int device, void* to, const void* from, std::size_t bytes);
void copy_to_host(int device, void* to, const void* from, std::size_t bytes);
// In stream order, and waits for the stream, so that other streams see the bytes.
void copy_to_device(int device, void* to, const void* from, std::size_t bytes, void* stream);
void copy_to_host(int device, void* to, const void* from, std::size_t bytes, void* stream);
// In stream order, without waiting.
void copy_within(int device, void* to, const void* from, std::size_t bytes, void* stream);
void synchronize(int device);
void synchronize(int device, void* stream);
// Moments of a stream.
void* create_event(int device);
void release_event(int device, void* event);
void record_event(int device, void* event, void* stream);
double seconds_between(int device, void* first, void* second);  // waits for both
// Frees the memory of workspaces and tables that are not in use.
void release_device_memory();

}  // namespace rapt::inline v1::cuda
