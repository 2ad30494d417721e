// Who shares what among the heads of a wave, whether or not the heads of a thing follow each other.

#include "backends/cpu/sharing.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

void expect_counted(const std::vector<std::int64_t>& owners) {
  const rapt::Sharing sharing(owners.size(), [&](std::size_t n) { return owners[n]; });
  std::vector<std::int64_t> met;  // owners in the order of their first heads
  for (std::size_t n = 0; n < owners.size(); ++n) {
    std::int64_t before = 0, all = 0;
    for (std::size_t m = 0; m < owners.size(); ++m) {
      if (owners[m] != owners[n]) continue;
      ++all;
      if (m < n) ++before;
    }
    if (before == 0) met.push_back(owners[n]);
    ASSERT_EQ(sharing.rank[n], before) << "head " << n;
    ASSERT_EQ(sharing.count[n], all) << "head " << n;
    ASSERT_LT(sharing.place[n], static_cast<std::int64_t>(met.size())) << "head " << n;
    ASSERT_EQ(met[static_cast<std::size_t>(sharing.place[n])], owners[n]) << "head " << n;
  }
  EXPECT_EQ(sharing.places, static_cast<std::int64_t>(met.size()));
}

TEST(Sharing, EachHeadItsOwn) { expect_counted({3, 4, 5, 9, 10}); }
TEST(Sharing, NeighboursShare) { expect_counted({0, 0, 0, 1, 1, 1, 2}); }
TEST(Sharing, AllShare) { expect_counted({7, 7, 7, 7}); }
TEST(Sharing, BatchesShare) { expect_counted({0, 1, 2, 0, 1, 2, 0}); }
TEST(Sharing, BatchesShareGroups) { expect_counted({0, 0, 1, 1, 0, 0, 1, 1}); }
TEST(Sharing, NoHeads) { expect_counted({}); }

}  // namespace
