#pragma once

#include <cstddef>

// Every allocation of a program that is linked with allocations.cc is counted, so that nothing asks for memory unseen. Not
// mmap: the library keeps buffers of more than 1 MiB between calls.
namespace support {

std::size_t allocated_bytes();
std::size_t allocations();

}  // namespace support
