// Counts in messages have the right plural.

#include "attend/counted.h"

#include <gtest/gtest.h>

#include <array>

#include "rapt/rapt.h"

namespace {

TEST(Counted, NounsFollowTheirCount) {
  EXPECT_EQ(rapt::counted(0, "key"), "0 keys");
  EXPECT_EQ(rapt::counted(1, "key"), "1 key");
  EXPECT_EQ(rapt::counted(12, "key"), "12 keys");
  EXPECT_EQ(rapt::counted(1, "query"), "1 query");
  EXPECT_EQ(rapt::counted(3, "query"), "3 queries");
  EXPECT_EQ(rapt::counted(1, "process"), "1 process");
  EXPECT_EQ(rapt::counted(2, "process"), "2 processes");
  EXPECT_EQ(rapt::counted(2, "batch"), "2 batches");
  EXPECT_EQ(rapt::counted(2, "epoch"), "2 epochs");
  EXPECT_EQ(rapt::counted(2, "independent head"), "2 independent heads");
}

TEST(Counted, OneKeyIsNotOneKeys) {
  const std::array<float, 4> numbers{};
  std::array<float, 2> out{};
  try {
    rapt::attend(rapt::view(numbers.data(), {1, 2}), rapt::view(numbers.data(), {1, 2}),
                 rapt::view(numbers.data(), {2, 2}), rapt::view(out.data(), {1, 2}));
    FAIL() << "two values for one key were accepted";
  } catch (const rapt::Error& error) {
    EXPECT_STREQ(error.what(), "attend: v: expected 1 key as in k, got 2");
  }
}

}  // namespace
