#pragma once

// A device on the CPU, for tests where there is no GPU: kernels are compiled as ordinary C++ with this header before them. A
// thread of a block is a fiber; a block runs alone, until each of its threads waits or ends. What a kernel may not rely on is
// as unkind as the hardware allows: shared memory begins as NaN, and products on the tensor cores are computed as late as
// their wait permits. It says nothing of speed, nor of races within what one instruction does.

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

namespace machine {

// Runs a kernel: one block after the other.
void run(dim3 blocks, dim3 threads, std::size_t shared_bytes, const std::function<void()>& thread);

void* shared_memory();
template <class T>
T* shared() {
  return static_cast<T*>(shared_memory());
}
std::uint32_t shared_offset(const void* p);
void* shared_at(std::uint32_t offset);

// Runs the other threads; returns once `ready` does, which what they do must bring about.
void wait_until(const std::function<bool()>& ready);
// Something that others may wait for has changed.
void changed();
// Ends the kernel with an error.
[[noreturn]] void fail(const char* what);

int sync_block(int any, int all);  // bit 0: some thread's `any`; bit 1: every thread's `all`
void sync_named(int id, int threads);
void arrive_named(int id, int threads);
// What the lanes of a warp gave; it stays until the lane has shared twice more.
struct Shares {
  std::uint32_t of[32][4];
};
const Shares& share(unsigned mask, std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0, std::uint32_t d = 0);
int lane();

// Starts what <<<…>>> names; copies the arguments, as a launch does.
struct Launch {
  dim3 blocks, threads;
  std::size_t bytes = 0;

  Launch(dim3 grid, dim3 block, std::size_t shared_bytes = 0, cudaStream_t = nullptr)
      : blocks(grid), threads(block), bytes(shared_bytes) {}
  template <class K>
  auto operator()(K kernel) const {
    return [*this, kernel](auto... arguments) { run(blocks, threads, bytes, [&] { kernel(arguments...); }); };
  }
};

template <class T>
T shuffle(unsigned mask, T x, int source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  std::uint32_t bits[2] = {};
  std::memcpy(bits, &x, sizeof x);
  const Shares& all = share(mask, bits[0], bits[1]);
  std::memcpy(&x, all.of[source & 31], sizeof x);
  return x;
}
template <class F>
unsigned reduce(unsigned mask, unsigned x, F f) {
  const Shares& all = share(mask, x);
  bool first = true;
  for (int n = 0; n < 32; ++n)
    if (mask >> n & 1) {
      x = first ? all.of[n][0] : f(x, all.of[n][0]);
      first = false;
    }
  return x;
}

}  // namespace machine

// Those of the thread that runs.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

inline void __syncthreads() { machine::sync_block(0, 1); }
inline int __syncthreads_or(int x) { return machine::sync_block(x, 1) & 1; }
inline int __syncthreads_and(int x) { return machine::sync_block(0, x) >> 1 & 1; }
inline void __syncwarp(unsigned mask = ~0u) { machine::share(mask, 0); }
template <class T>
T __shfl_sync(unsigned mask, T x, int source) {
  return machine::shuffle(mask, x, source);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int bits) {
  return machine::shuffle(mask, x, machine::lane() ^ bits);
}
inline int __any_sync(unsigned mask, int x) {
  return machine::reduce(mask, x != 0, [](unsigned a, unsigned b) { return a | b; }) != 0;
}
inline int __all_sync(unsigned mask, int x) {
  return machine::reduce(mask, x != 0, [](unsigned a, unsigned b) { return a & b; }) != 0;
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned x) {
  return machine::reduce(mask, x, [](unsigned a, unsigned b) { return a | b; });
}
inline int __reduce_min_sync(unsigned mask, int x) {
  return static_cast<int>(machine::reduce(mask, static_cast<unsigned>(x), [](unsigned a, unsigned b) {
    return static_cast<int>(a) < static_cast<int>(b) ? a : b;
  }));
}
inline int __reduce_max_sync(unsigned mask, int x) {
  return static_cast<int>(machine::reduce(mask, static_cast<unsigned>(x), [](unsigned a, unsigned b) {
    return static_cast<int>(a) > static_cast<int>(b) ? a : b;
  }));
}

inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T atomicAdd(T* p, T x) {
  return std::exchange(*p, static_cast<T>(*p + x));
}
template <class T>
T atomicMin(T* p, T x) {
  return std::exchange(*p, x < *p ? x : *p);
}
template <class T>
T atomicMax(T* p, T x) {
  return std::exchange(*p, x > *p ? x : *p);
}
inline unsigned atomicInc(unsigned* p, unsigned last) { return std::exchange(*p, *p >= last ? 0 : *p + 1); }
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}

using std::isfinite;
using std::isnan;

namespace machine {

template <class... P, class... A>
cudaError_t launch(const cudaLaunchConfig_t* config, void (*kernel)(P...), A... arguments) {
  run(config->gridDim, config->blockDim, config->dynamicSmemBytes, [&] { kernel(arguments...); });
  return cudaSuccess;
}

}  // namespace machine

#define cudaLaunchKernelEx ::machine::launch
