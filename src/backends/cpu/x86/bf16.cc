#include "backends/cpu/x86/bf16.h"

#include <atomic>

#include "rapt/threads.h"

#if defined(RAPT_BF16)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace rapt::inline v1 {

#if defined(RAPT_BF16)
namespace bf16_dot {
extern const Bf16Kernels kernels;
}
namespace bf16_tiles {
extern const Bf16Kernels kernels;
}

namespace {

// The operating system saves a process's tiles only on request.
bool system_allows_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023;
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

Bf16Choices find() {
  Bf16Choices choices;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || (a & (1U << 5)) == 0) return choices;
  choices.list[choices.count++] = &bf16_dot::kernels;
  __get_cpuid_count(7, 0, &a, &b, &c, &d);
  const bool tiles = (d & (1U << 22)) != 0 && (d & (1U << 24)) != 0;
  if (tiles && system_allows_tiles()) choices.list[choices.count++] = &bf16_tiles::kernels;
  return choices;
}

}  // namespace

const Bf16Choices& available_bf16() {
  static const Bf16Choices choices = find();
  return choices;
}

namespace {

std::atomic<const Bf16Kernels*>& chosen() {
  const Bf16Choices& choices = available_bf16();
  static std::atomic<const Bf16Kernels*> kernels{choices.count > 0 ? choices.list[choices.count - 1] : nullptr};
  return kernels;
}

}  // namespace

const Bf16Kernels* active_bf16(Isa isa) {
  return isa == Isa::avx512 ? chosen().load(std::memory_order_relaxed) : nullptr;
}

void set_active_bf16(const Bf16Kernels* kernels) { chosen().store(kernels, std::memory_order_relaxed); }

#else

const Bf16Choices& available_bf16() {
  static const Bf16Choices none;
  return none;
}

const Bf16Kernels* active_bf16(Isa) { return nullptr; }

void set_active_bf16(const Bf16Kernels*) {}

#endif

}  // namespace rapt::inline v1
