#include "support/allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

// Whoever links this file counts: it stands in for the program's operator new and aligned_alloc.
namespace {
std::atomic<std::int64_t> count{0};
}

void* operator new(std::size_t bytes) {
  ++count;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++count;
  return memalign(alignment, bytes);
}

namespace support {
std::int64_t allocation_count() { return count; }
}  // namespace support
