#pragma once

#include <cstdint>

namespace support {

// How often this process has taken memory, but for mmap: the library keeps buffers of more than 1 MiB between calls.
std::int64_t allocation_count();

}  // namespace support
