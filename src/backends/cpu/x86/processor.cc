#include "backends/cpu/x86/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace rapt::inline v1 {
namespace {

constexpr std::uint32_t bit(int n) { return std::uint32_t{1} << n; }

// -march=x86-64-v2 -maes -mpclmul
constexpr std::uint32_t kSse3 = bit(0), kPclmul = bit(1), kSsse3 = bit(9), kCmpxchg16b = bit(13), kSse41 = bit(19),
                        kSse42 = bit(20), kPopcnt = bit(23), kAes = bit(25);  // leaf1_c
constexpr std::uint32_t kLahf = bit(0);                                       // extended1_c
constexpr ProcessorReport kSse4Target{kSse3 | kPclmul | kSsse3 | kCmpxchg16b | kSse41 | kSse42 | kPopcnt | kAes, 0,
                                      kLahf, 0};

// What -march=x86-64-v3 adds
constexpr std::uint32_t kFma = bit(12), kMovbe = bit(22), kXsave = bit(26), kOsxsave = bit(27), kAvx = bit(28),
                        kF16c = bit(29);                                 // leaf1_c
constexpr std::uint32_t kBmi1 = bit(3), kAvx2 = bit(5), kBmi2 = bit(8);  // leaf7_b
constexpr std::uint32_t kLzcnt = bit(5);                                 // extended1_c
constexpr std::uint64_t kXmmState = bit(1), kYmmState = bit(2);
constexpr ProcessorReport kAvx2Target{kSse4Target.leaf1_c | kFma | kMovbe | kXsave | kOsxsave | kAvx | kF16c,
                                      kBmi1 | kAvx2 | kBmi2, kSse4Target.extended1_c | kLzcnt, kXmmState | kYmmState};

// What -march=x86-64-v4 adds
constexpr std::uint32_t kAvx512f = bit(16), kAvx512dq = bit(17), kAvx512cd = bit(28), kAvx512bw = bit(30),
                        kAvx512vl = bit(31);  // leaf7_b
constexpr std::uint64_t kMaskState = bit(5), kZmmUpperState = bit(6), kZmm16To31State = bit(7);
constexpr ProcessorReport kAvx512Target{
    kAvx2Target.leaf1_c, kAvx2Target.leaf7_b | kAvx512f | kAvx512dq | kAvx512cd | kAvx512bw | kAvx512vl,
    kAvx2Target.extended1_c, kAvx2Target.enabled_states | kMaskState | kZmmUpperState | kZmm16To31State};

bool has_all(const ProcessorReport& report, const ProcessorReport& needed) {
  return (report.leaf1_c & needed.leaf1_c) == needed.leaf1_c && (report.leaf7_b & needed.leaf7_b) == needed.leaf7_b &&
         (report.extended1_c & needed.extended1_c) == needed.extended1_c &&
         (report.enabled_states & needed.enabled_states) == needed.enabled_states;
}

}  // namespace

ProcessorReport read_processor() {
  ProcessorReport report;
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) report.leaf1_c = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) report.leaf7_b = b;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) report.extended1_c = c;
  if ((report.leaf1_c & kOsxsave) != 0) {
    std::uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    report.enabled_states = std::uint64_t{high} << 32 | low;
  }
#endif
  return report;
}

bool can_run(Isa isa, const ProcessorReport& report) {
  switch (isa) {
    case Isa::sse4: return has_all(report, kSse4Target);
    case Isa::avx2: return has_all(report, kAvx2Target);
    case Isa::avx512: return has_all(report, kAvx512Target);
    case Isa::portable: return false;
  }
  return false;
}

}  // namespace rapt::inline v1
