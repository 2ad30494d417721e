#include "tensor/random.h"

#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "rapt/error.h"

namespace rapt::test {
namespace {

// Computed independently, with Python's integers: changing these numbers changes every run.
TEST(RandomNumbers, AreTheSameEverywhere) {
  const auto expect = [](Random random, std::array<std::uint64_t, 3> values) {
    for (const std::uint64_t value : values) EXPECT_EQ(random.next_u64(), value);
  };
  expect(Random(0), {0x96b7c26377c37de1, 0x4a166fe064d3d64c, 0x211f71eaedb9eec8});
  expect(Random(1), {0x3b5c21bb056eee9a, 0x349d3f58c831546, 0xc79ec56a252e9984});
  expect(Random(1, 0), {0x285dcc4b326ed21, 0x98ea1cf45bfb6f31, 0xcb2222083b85ccee});
  expect(Random(0, 1), {0xf74cd09132f23c9b, 0xf8d214eee90526ec, 0xd4eac0913615cc7a});
  expect(Random(-1, 5, 7), {0x27defdf8e5bb6ff, 0xb39fe74c5e83365f, 0x646fbc4f47749340});
}

// Computed with 200 bits.
TEST(RandomNumbers, NormalsAreExactToAFewUlp) {
  Random random(1, 2);
  for (const double value : {0x1.f6de28e729c15p-3, -0x1.dc85968d9cd1ap-5, 0x1.12a1a6838f358p-1, 0x1.11f8e27f9eb78p-1})
    EXPECT_NEAR(random.normal(), value, 1e-15 * std::abs(value) + 1e-17);
  // Against the library's functions, all over the range.
  for (int n = 0; n < 100000; ++n) {
    Random copy = random;
    const double u = 1 - copy.uniform();
    const double value = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::acos(-1.0) * copy.uniform());
    ASSERT_NEAR(random.normal(), value, 4e-15);
  }
}

// The bits of many normals in one number: it differs if a platform rounds differently.
TEST(RandomNumbers, NormalsHaveTheSameBits) {
  Random random(3, 4);
  std::uint64_t bits = 0;
  for (int n = 0; n < 10000; ++n) bits = std::rotl(bits, 7) ^ std::bit_cast<std::uint64_t>(random.normal());
  EXPECT_EQ(bits, 0x55508f396f076aeaU);
}

TEST(RandomNumbers, MomentsOfUniformAndNormal) {
  constexpr int kCount = 400000;
  Random random(11);
  double sum = 0;
  double squares = 0;
  for (int n = 0; n < kCount; ++n) {
    const double x = random.uniform();
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    sum += x;
    squares += x * x;
  }
  // Five standard errors each.
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kCount));
  std::array<double, 5> moments{};
  int beyond_three = 0;
  for (int n = 0; n < kCount; ++n) {
    const double x = random.normal();
    for (std::size_t k = 1; k < moments.size(); ++k) moments[k] += std::pow(x, static_cast<double>(k)) / kCount;
    if (std::abs(x) > 3) ++beyond_three;
  }
  EXPECT_NEAR(moments[1], 0, 5 * std::sqrt(1.0 / kCount));
  EXPECT_NEAR(moments[2], 1, 5 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(moments[3], 0, 5 * std::sqrt(15.0 / kCount));
  EXPECT_NEAR(moments[4], 3, 5 * std::sqrt(96.0 / kCount));
  EXPECT_NEAR(beyond_three / static_cast<double>(kCount), 0.0026998, 5 * std::sqrt(0.0027 / kCount));
}

// Chi-square over the bytes at each place of the words, also along counters and ids that differ by one.
TEST(RandomNumbers, BytesAreUniformAlongCountersAndIds) {
  constexpr int kCount = 1 << 16;
  for (const bool along_ids : {false, true}) {
    std::array<std::array<int, 256>, 8> counts{};
    Random stream(5);
    for (int n = 0; n < kCount; ++n) {
      const std::uint64_t word = along_ids ? Random(5, n).next_u64() : stream.next_u64();
      for (std::size_t b = 0; b < 8; ++b) ++counts[b][word >> (8 * b) & 0xff];
    }
    for (const auto& bins : counts) {
      double chi = 0;
      for (const int count : bins) chi += (count - 256.0) * (count - 256.0) / 256;
      EXPECT_NEAR(chi, 255, 5 * std::sqrt(2.0 * 255));
    }
  }
}

TEST(RandomNumbers, NeighbouringStreamsShareNoBits) {
  // Of two independent words 32 bits differ on average.
  double differing = 0;
  constexpr int kCount = 20000;
  for (int n = 0; n < kCount; ++n) differing += std::popcount(Random(n, 1).next_u64() ^ Random(n + 1, 1).next_u64());
  EXPECT_NEAR(differing / kCount, 32, 5 * 4 / std::sqrt(kCount));
  std::set<std::uint64_t> seen;
  for (int seed = 0; seed < 200; ++seed) {
    Random random(seed);
    for (int n = 0; n < 200; ++n) EXPECT_TRUE(seen.insert(random.next_u64()).second);
  }
}

TEST(RandomNumbers, BelowHasNoBias) {
  Random random(17);
  std::array<int, 6> counts{};
  for (int n = 0; n < 60000; ++n) ++counts[random.below(6)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 5 * std::sqrt(60000.0 * 5 / 36));
  // Of n = 3·2⁶² a plain remainder would favour the first third two to one.
  int low = 0;
  const std::uint64_t large = std::uint64_t{3} << 62;
  for (int n = 0; n < 30000; ++n) {
    const std::uint64_t value = random.below(large);
    ASSERT_LT(value, large);
    if (value < std::uint64_t{1} << 62) ++low;
  }
  EXPECT_NEAR(low, 10000, 5 * std::sqrt(30000.0 * 2 / 9));
  EXPECT_EQ(random.below(1), 0U);
  EXPECT_THROW(random.below(0), Error);
}

TEST(RandomNumbers, EveryOrderIsAsLikely) {
  std::map<std::array<int, 4>, int> counts;
  Random random(23);
  for (int n = 0; n < 24000; ++n) {
    std::array<int, 4> items{0, 1, 2, 3};
    random.shuffle(std::span<int>(items));
    ++counts[items];
  }
  EXPECT_EQ(counts.size(), 24U);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 5 * std::sqrt(1000.0));
  std::vector<int> none;
  random.shuffle(std::span<int>(none));
}

TEST(RandomNumbers, GoOnFromAnyPosition) {
  Random random(9, 9);
  for (int n = 0; n < 10; ++n) random.normal();
  EXPECT_EQ(random.position(), 20U);
  const std::uint64_t next = random.next_u64();
  Random other(9, 9);
  other.set_position(20);
  EXPECT_EQ(other.next_u64(), next);
}

}  // namespace
}  // namespace rapt::test
