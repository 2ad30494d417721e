#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace rapt::inline v1::RAPT_TARGET {

// While it lives, subnormal results are flushed to 0 on this thread. Weights of distant keys become subnormal, and some
// processors take a hundred times as long for them.
class FlushTiny {
 public:
#if defined(__x86_64__)
  FlushTiny() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8000U); }
  ~FlushTiny() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  FlushTiny() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" : : "r"(before_ | (std::uint64_t{1} << 24)));
  }
  ~FlushTiny() { asm volatile("msr fpcr, %0" : : "r"(before_)); }

 private:
  std::uint64_t before_ = 0;
#else
  FlushTiny() {}
  ~FlushTiny() {}
#endif
 public:
  FlushTiny(const FlushTiny&) = delete;
  FlushTiny& operator=(const FlushTiny&) = delete;
};

}  // namespace rapt::inline v1::RAPT_TARGET
