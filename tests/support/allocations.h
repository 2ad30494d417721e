#pragma once

#include <cstddef>

// Counts every allocation of a program that is linked with allocations.cc. Not mmap: the library keeps buffers of more
// than 1 MiB between calls.
namespace support {

std::size_t allocated_bytes();
std::size_t allocations();
// Is called before each allocation, of any thread; null: nothing is. It must not allocate.
void call_before_allocations(void (*hook)());

}  // namespace support
