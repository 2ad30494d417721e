#pragma once

#include <cstddef>

// Under the address sanitizer, memory of an arena that is not handed out may not be touched.
#if defined(__SANITIZE_ADDRESS__)
#define RAPT_ARENA_CHECKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RAPT_ARENA_CHECKS 1
#endif
#endif

#if defined(RAPT_ARENA_CHECKS)
#include <sanitizer/asan_interface.h>
#endif

namespace rapt::inline v1 {

#if defined(RAPT_ARENA_CHECKS)
inline constexpr std::size_t kBetweenPieces = 64;
[[gnu::always_inline]] inline void allow_memory(const void* begin, std::size_t bytes) {
  __asan_unpoison_memory_region(begin, bytes);
}
[[gnu::always_inline]] inline void forbid_memory(const void* begin, std::size_t bytes) {
  __asan_poison_memory_region(begin, bytes);
}
#else
inline constexpr std::size_t kBetweenPieces = 0;
[[gnu::always_inline]] inline void allow_memory(const void*, std::size_t) {}
[[gnu::always_inline]] inline void forbid_memory(const void*, std::size_t) {}
#endif

}  // namespace rapt::inline v1
