#include "support/allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> bytes{0};
std::atomic<std::size_t> times{0};
std::atomic<void (*)()> before{nullptr};

void* counted_or_null(std::size_t size, std::size_t alignment) {
  if (auto* hook = before.load()) hook();
  bytes += size;
  ++times;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  return alignment > alignof(std::max_align_t) ? memalign(alignment, rounded) : std::malloc(size ? size : 1);
}

void* counted(std::size_t size, std::size_t alignment) {
  void* p = counted_or_null(size, alignment);
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) { return counted(size, 1); }
[[gnu::noinline]] void* operator new[](std::size_t size) { return counted(size, 1); }
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t a) {
  return counted(size, static_cast<std::size_t>(a));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t a) {
  return counted(size, static_cast<std::size_t>(a));
}
// std::stable_sort uses it.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted_or_null(size, 1);
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return counted_or_null(size, 1);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

extern "C" [[gnu::noinline]] void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return counted_or_null(size, alignment > alignof(std::max_align_t) ? alignment : 2 * alignof(std::max_align_t));
}

namespace support {

std::size_t allocated_bytes() { return bytes; }
std::size_t allocations() { return times; }
void call_before_allocations(void (*hook)()) { before = hook; }

}  // namespace support
