#include "benchmarks/peak.h"

#include <atomic>

#include "rapt/threads.h"

// Compiled once for each instruction set, through Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "benchmarks/peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rapt::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Twelve sums hide the latency of two multiply-adds per cycle, and fit into sixteen registers.
float fma_rounds(std::int64_t rounds, float x, float y, double* operations) {
  const hn::ScalableTag<float> tag;
  const auto vx = hn::Set(tag, x);
  const auto vy = hn::Set(tag, y);
  // Different initial values: the compiler would compute equal sums once.
  const auto start = [&](int n) { return hn::Set(tag, x + static_cast<float>(n)); };
  auto s0 = start(0), s1 = start(1), s2 = start(2), s3 = start(3), s4 = start(4), s5 = start(5);
  auto s6 = start(6), s7 = start(7), s8 = start(8), s9 = start(9), s10 = start(10), s11 = start(11);
  for (std::int64_t n = 0; n < rounds; ++n) {
    s0 = hn::MulAdd(s0, vx, vy);
    s1 = hn::MulAdd(s1, vx, vy);
    s2 = hn::MulAdd(s2, vx, vy);
    s3 = hn::MulAdd(s3, vx, vy);
    s4 = hn::MulAdd(s4, vx, vy);
    s5 = hn::MulAdd(s5, vx, vy);
    s6 = hn::MulAdd(s6, vx, vy);
    s7 = hn::MulAdd(s7, vx, vy);
    s8 = hn::MulAdd(s8, vx, vy);
    s9 = hn::MulAdd(s9, vx, vy);
    s10 = hn::MulAdd(s10, vx, vy);
    s11 = hn::MulAdd(s11, vx, vy);
  }
  *operations = 2.0 * 12 * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(tag));
  const auto low = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(s4, s5));
  const auto high = hn::Add(hn::Add(hn::Add(s6, s7), hn::Add(s8, s9)), hn::Add(s10, s11));
  return hn::GetLane(hn::Add(low, high));
}

}  // namespace rapt::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::bench {

HWY_EXPORT(fma_rounds);

namespace {

// Highway's targets above the one that the engine runs on.
std::int64_t targets_above(Isa isa) {
#if HWY_ARCH_X86
  // A better target has a lower bit.
  if (isa == Isa::sse4) return HWY_SSE4 - 1;
  if (isa == Isa::avx2) return HWY_AVX2 - 1;
#endif
  static_cast<void>(isa);
  return 0;
}

}  // namespace

double run_fmas(std::int64_t rounds) {
  static std::atomic<float> kept{0};
  static const bool limited = [] {
    if (const std::int64_t above = targets_above(active_isa()); above != 0) {
      hwy::DisableTargets(above);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    }
    return true;
  }();
  static_cast<void>(limited);
  double operations = 0;
  // Stored, or the compiler would leave the loop out.
  kept.store(HWY_DYNAMIC_DISPATCH(fma_rounds)(rounds, 0.5f, 0.25f, &operations), std::memory_order_relaxed);
  return operations;
}

}  // namespace rapt::bench
#endif
