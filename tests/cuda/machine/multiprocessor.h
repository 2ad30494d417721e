#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "cuda/machine/machine.h"
#include "cuda/machine/sm90.h"

// The state of the one multiprocessor that the machine has, for its own files.
namespace machine {

inline constexpr std::size_t kStack = 256 << 10, kShared = 227 << 10;
inline constexpr int kMostThreads = 1024, kNamed = 16;

struct Gate {
  int arrived = 0;
  unsigned generation = 0;
};

struct Warp {
  Gate gate;
  Shares shares[2];
};

struct Fiber {
  void* stack_pointer = nullptr;
  bool done = true;
  uint3 thread{};
  std::vector<Product> open;
  std::vector<std::vector<Product>> committed;
};

struct Multiprocessor {
  std::byte* stacks = nullptr;
  std::byte* shared = nullptr;
  std::array<Fiber, kMostThreads> fibers;
  std::array<Warp, kMostThreads / 32> warps;
  std::array<Gate, kNamed> named;
  Gate block;
  int any[2] = {}, all[2] = {1, 1};
  int count = 0, live = 0, current = 0;
  std::uint64_t events = 0;
  void* scheduler = nullptr;
  const std::function<void()>* body = nullptr;
  std::string failure;

  Multiprocessor();
  Fiber& fiber() { return fibers[static_cast<std::size_t>(current)]; }
  Warp& warp() { return warps[static_cast<std::size_t>(current / 32)]; }
};

Multiprocessor& processor();

// Of the thread that calls.
extern thread_local cudaError_t last_error;

// Bits 4 to 6 of an address in shared memory, changed by bits 7 to 9.
inline std::uint32_t swizzled(std::uint32_t address) { return address ^ (address >> 3 & 0x70); }

// cuTensorMapEncodeTiled of the driver.
CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* data, const cuuint64_t* sizes,
                      const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t*, CUtensorMapInterleave,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

}  // namespace machine
