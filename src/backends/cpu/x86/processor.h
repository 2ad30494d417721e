#pragma once

#include <cstdint>

#include "rapt/threads.h"

namespace rapt::inline v1 {

// The features that an x86-64 processor and its operating system report.
struct ProcessorReport {
  std::uint32_t leaf1_c = 0;         // CPUID 1: ECX
  std::uint32_t leaf7_b = 0;         // CPUID 7, 0: EBX
  std::uint32_t extended1_c = 0;     // CPUID 0x80000001: ECX
  std::uint64_t enabled_states = 0;  // XCR0: the registers that the system saves; 0 where it does not say
};

// All zero on other processors.
ProcessorReport read_processor();

// Whether everything is there that the compile flags of a SIMD target let the compiler use; see cmake/library.cmake.
bool can_run(Isa isa, const ProcessorReport& report);

}  // namespace rapt::inline v1
