// Which SIMD targets a processor supports: by single features, and by what the compiler says of this one.
#include "backends/cpu/x86/processor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace {

using rapt::can_run;
using rapt::Isa;
using rapt::ProcessorReport;

constexpr ProcessorReport kEverything{~0U, ~0U, ~0U, ~std::uint64_t{0}};

std::vector<Isa> runs(const ProcessorReport& report) {
  std::vector<Isa> list;
  for (const Isa isa : {Isa::sse4, Isa::avx2, Isa::avx512})
    if (can_run(isa, report)) list.push_back(isa);
  return list;
}

ProcessorReport without(int leaf1_c, int leaf7_b, int extended1_c, int state) {
  ProcessorReport report = kEverything;
  if (leaf1_c >= 0) report.leaf1_c &= ~(1U << leaf1_c);
  if (leaf7_b >= 0) report.leaf7_b &= ~(1U << leaf7_b);
  if (extended1_c >= 0) report.extended1_c &= ~(1U << extended1_c);
  if (state >= 0) report.enabled_states &= ~(std::uint64_t{1} << state);
  return report;
}

TEST(Processor, RunsWhatItHasAllFeaturesOf) {
  const std::vector<Isa> none, sse4{Isa::sse4}, avx2{Isa::sse4, Isa::avx2}, all{Isa::sse4, Isa::avx2, Isa::avx512};
  EXPECT_EQ(runs({}), none);
  EXPECT_EQ(runs(kEverything), all);
  for (int n = 0; n < 32; ++n) {
    const auto in = [&](std::initializer_list<int> bits) {
      return std::find(bits.begin(), bits.end(), n) != bits.end();
    };
    // SSE3, PCLMULQDQ, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT, AES; then FMA, MOVBE, XSAVE, OSXSAVE, AVX, F16C
    EXPECT_EQ(runs(without(n, -1, -1, -1)), in({0, 1, 9, 13, 19, 20, 23, 25}) ? none
                                            : in({12, 22, 26, 27, 28, 29})    ? sse4
                                                                              : all)
        << n;
    // BMI1, AVX2, BMI2; then AVX-512 F, DQ, CD, BW, VL
    EXPECT_EQ(runs(without(-1, n, -1, -1)), in({3, 5, 8}) ? sse4 : in({16, 17, 28, 30, 31}) ? avx2 : all) << n;
    // LAHF; then LZCNT
    EXPECT_EQ(runs(without(-1, -1, n, -1)), in({0}) ? none : in({5}) ? sse4 : all) << n;
    // Registers xmm and ymm; then masks, zmm0 to 15, zmm16 to 31
    EXPECT_EQ(runs(without(-1, -1, -1, n)), in({1, 2}) ? sse4 : in({5, 6, 7}) ? avx2 : all) << n;
  }
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
TEST(Processor, AgreesWithTheCompiler) {
  const ProcessorReport report = rapt::read_processor();
  const bool both = __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
  EXPECT_EQ(can_run(Isa::sse4, report), both && __builtin_cpu_supports("x86-64-v2"));
  EXPECT_EQ(can_run(Isa::avx2, report), both && __builtin_cpu_supports("x86-64-v3"));
  EXPECT_EQ(can_run(Isa::avx512, report), both && __builtin_cpu_supports("x86-64-v4"));
}
#endif

}  // namespace
