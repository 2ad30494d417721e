// The engine's memory, which is rounded up and kept for the next call: neither memory past its end nor released memory
// may be touched. Only the address sanitizer notices such reads.
#include <gtest/gtest.h>

#include "backends/cpu/buffer.h"
#include "backends/host/poison.h"

#if defined(RAPT_ARENA_CHECKS)

namespace rapt::inline v1 {
namespace {

constexpr const char* kFound = "use-after-poison";
// One vector may be read past the end, no more.
constexpr std::size_t kBeyond = 128;

char at(const volatile char* memory, std::size_t n) { return memory[n]; }

TEST(BufferDeathTest, ReadingPastTheEndIsFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // Small ones are kept in powers of two, large ones are mapped, and the largest are not kept.
  for (const std::size_t bytes :
       {std::size_t{40'000}, std::size_t{700'000}, std::size_t{1'100'000}, std::size_t{9'000'000}}) {
    SCOPED_TRACE(bytes);
    const Buffer buffer(bytes);
    char* memory = buffer.as<char>();
    for (const std::size_t n : {std::size_t{0}, bytes / 2, bytes - 1, bytes + 63}) memory[n] = 1;
    EXPECT_DEATH(at(memory, bytes + kBeyond), kFound);
    EXPECT_DEATH(memory[bytes + kBeyond] = 1, kFound);
  }
}

TEST(BufferDeathTest, ReadingWhatWasGivenBackIsFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const std::size_t bytes : {std::size_t{40'000}, std::size_t{1'100'000}}) {
    SCOPED_TRACE(bytes);
    const char* memory = nullptr;
    {
      const Buffer buffer(bytes);
      memory = buffer.as<char>();
    }
    for (const std::size_t n : {std::size_t{0}, bytes / 2, bytes - 1}) EXPECT_DEATH(at(memory, n), kFound);
    // The next one has the same memory, and may use another part of it.
    const Buffer next(bytes + 1000);
    for (std::size_t n = 0; n < bytes + 1000; ++n) next.as<char>()[n] = 1;
  }
  release_buffers();
  // Whoever the system gives the memory to may use all of it.
  const Buffer again(30'000'000);
  for (std::size_t n = 0; n < again.size(); n += 64) again.as<char>()[n] = 1;
}

}  // namespace
}  // namespace rapt::inline v1

#endif
