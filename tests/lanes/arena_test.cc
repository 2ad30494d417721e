// The kernels' arena, on every SIMD target: memory between its pieces may not be touched. Only the address sanitizer
// notices overruns there.
#include <gtest/gtest.h>

#include <string_view>

#include "backends/cpu/targets.h"
#include "backends/host/poison.h"
#include "rapt/threads.h"

#if defined(RAPT_ARENA_CHECKS)

namespace rapt::inline v1 {

#define RAPT_DECLARE(target)                         \
  namespace target {                                 \
  void write_at(char* block, int piece, int offset); \
  }
RAPT_FOR_EACH_TARGET(RAPT_DECLARE)
#undef RAPT_DECLARE

namespace {

void expect_checked(const char* name, void (*write)(char*, int, int)) {
  SCOPED_TRACE(name);
  constexpr int kPiece = 128;  // 25 floats, rounded to whole vectors
  alignas(64) static char block[4096];
  for (const int piece : {0, 1, 2})
    for (const int inside : {0, 99, kPiece - 1}) write(block, piece, inside);
  for (const int piece : {0, 1, 2}) EXPECT_DEATH(write(block, piece, kPiece), "use-after-poison");
  for (const int piece : {1, 2}) EXPECT_DEATH(write(block, piece, -1), "use-after-poison");
  EXPECT_DEATH(write(block, 0, kPiece + 63), "use-after-poison");
  // The next owner of the memory may use all of it.
  for (int n = 0; n < 1024; ++n) write(block, -1, n);
}

TEST(ArenaDeathTest, WritingBetweenPiecesIsFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto available = available_isas();
#define RAPT_CHECK(target)        \
  for (const Isa isa : available) \
    if (std::string_view(name_of(isa)) == #target) expect_checked(#target, &target::write_at);
  RAPT_FOR_EACH_TARGET(RAPT_CHECK)
#undef RAPT_CHECK
}

}  // namespace
}  // namespace rapt::inline v1

#endif
