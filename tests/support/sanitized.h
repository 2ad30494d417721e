#pragma once

// Whether the program was built with the address or the thread sanitizer: code is ten times as slow there, freed memory
// is kept, and what matters is which code runs, not how long. Large tests take fewer rounds or smaller shapes.
namespace support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

template <class T>
constexpr T unless_sanitized(T usual, T smaller) {
  return kSanitized ? smaller : usual;
}

}  // namespace support
