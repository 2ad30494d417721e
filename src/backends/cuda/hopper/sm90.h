#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "backends/cuda/array.h"

// The Hopper instructions that the kernels use, one function each: mbarriers, the tensor copy engine (TMA), wgmma,
// named barriers, register hand-over. Nothing here knows about attention.
namespace rapt::inline v1::cuda {

RAPT_DEVICE std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// ---- mbarriers -----------------------------------------------------------------------------------------------------

using Barrier = std::uint64_t;

RAPT_DEVICE void barrier_init(Barrier* b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the copy engine; __syncthreads() after it makes them visible to the block.
RAPT_DEVICE void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

RAPT_DEVICE void barrier_arrive(Barrier* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}

// One arrival, and `bytes` more to come from the copy engine.
RAPT_DEVICE void barrier_expect(Barrier* b, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes)
               : "memory");
}

// Returns once the phase of this parity is complete. A fresh barrier counts as having completed parity 1.
// A wait of 2^33 clocks (about 4 s) is a deadlock: the kernel stops with an error. This is one piece of assembly, its trap
// predicated, because a trap in a branch of its own makes ptxas drop the register counts of setmaxnreg.
RAPT_DEVICE void barrier_wait(Barrier* b, std::uint32_t phase) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b32 start, now;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra DONE;\n"
      "mov.u32 start, %%clock_hi;\n"
      "AGAIN:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra DONE;\n"
      "mov.u32 now, %%clock_hi;\n"
      "sub.u32 now, now, start;\n"
      "setp.gt.u32 p, now, 1;\n"
      "@p trap;\n"
      "bra AGAIN;\n"
      "DONE:\n}" ::"r"(shared_address(b)),
      "r"(phase)
      : "memory");
}

// ---- tensor copy engine --------------------------------------------------------------------------------------------

// A box of the 4-dimensional tensor at (x, y, z, w) → shared memory; completes on the barrier.
RAPT_DEVICE void copy_box(void* to, const CUtensorMap* map, Barrier* b, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(b)), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

// Consecutive bytes (a multiple of 16, 16-byte aligned) → shared memory; completes on the barrier.
RAPT_DEVICE void copy_bytes(void* to, const void* from, Barrier* b, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(b))
               : "memory");
}

// Shared memory → memory, in place of what is there or added to it; f32, addresses and bytes multiples of 16.
RAPT_DEVICE void store_bytes(void* to, const void* from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}
RAPT_DEVICE void add_bytes(float* to, const void* from, std::uint32_t bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\ncp.async.bulk.commit_group;" ::"l"(
          to),
      "r"(shared_address(from)), "r"(bytes)
      : "memory");
}
// Until what the thread stores or adds has been read, and until it is there.
RAPT_DEVICE void await_stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
RAPT_DEVICE void await_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// After ordinary writes to shared memory that wgmma or the copy engine will read; by each writing thread, before a barrier.
RAPT_DEVICE void fence_shared_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- flags between blocks ------------------------------------------------------------------------------------------

// Returns once *flag is `value`; stops with an error as barrier_wait does.
RAPT_DEVICE void await_flag(const unsigned* flag, unsigned value) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b32 start, now, x;\n"
      "mov.u32 start, %%clock_hi;\n"
      "AGAIN:\n"
      "ld.acquire.gpu.global.u32 x, [%0];\n"
      "setp.eq.u32 p, x, %1;\n"
      "@p bra DONE;\n"
      "mov.u32 now, %%clock_hi;\n"
      "sub.u32 now, now, start;\n"
      "setp.gt.u32 p, now, 1;\n"
      "@p trap;\n"
      "bra AGAIN;\n"
      "DONE:\n}" ::"l"(flag),
      "r"(value)
      : "memory");
}
// What another block's copy engine wrote before a flag that was awaited is there for this one's.
RAPT_DEVICE void fence_memory() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
// After everything that the thread did, or saw done, before.
RAPT_DEVICE void set_flag(unsigned* flag, unsigned value) {
  asm volatile("fence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

// ---- wgmma ---------------------------------------------------------------------------------------------------------

// How wgmma finds an operand in shared memory. Both forms are panels of 64 numbers (128 bytes) a row, as a TMA box with
// 128-byte swizzle writes them; 8 rows make a 1024-byte block, and panels start at multiples of 1024.
inline constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
inline constexpr std::uint64_t kEightRows = std::uint64_t{1024 >> 4} << 32;

// Which way the sum runs in an operand in shared memory: along its rows, or down its columns.
enum class SumOver { rows, columns };

// The sum runs along the rows (Q, K: row = query or key). One instruction takes 16 numbers of a row: step 32 bytes.
RAPT_DEVICE std::uint64_t along_rows(const void* p) {
  return kSwizzle128 | kEightRows | std::uint64_t{1} << 16 | (shared_address(p) & 0x3FFFF) >> 4;
}

// The sum runs down the rows (V: row = key). One instruction takes 16 rows; the next 64 columns are `panel` bytes on.
RAPT_DEVICE std::uint64_t down_rows(const void* p, std::uint32_t panel) {
  return kSwizzle128 | kEightRows | std::uint64_t{panel >> 4} << 16 | (shared_address(p) & 0x3FFFF) >> 4;
}

// The same operand `bytes` further on.
RAPT_DEVICE std::uint64_t advance(std::uint64_t operand, std::uint32_t bytes) {
  return (operand & ~std::uint64_t{0xFFFFFFFF}) | (static_cast<std::uint32_t>(operand) + (bytes >> 4));
}

// Before the first wgmma that reads registers which ordinary instructions wrote.
RAPT_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
RAPT_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most kPending committed groups are unfinished. The accumulators of the finished ones are named so that
// the compiler reads them only after the wait.
template <int kPending, int N>
RAPT_DEVICE void wgmma_wait(float (&accumulators)[N]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#pragma unroll
  for (int n = 0; n < N; ++n) asm volatile("" : "+f"(accumulators[n])::"memory");
}

// ---- warps and registers -------------------------------------------------------------------------------------------

// bar.sync and bar.arrive: `threads` counts those that wait and those that only arrive.
RAPT_DEVICE void named_wait(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
RAPT_DEVICE void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

template <int N>
RAPT_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
RAPT_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// A number that is the same in every lane; the reduction makes the compiler keep it, and what follows from it, in uniform
// registers (a shuffle does not). Loops over wgmma need that: their operands must be uniform.
RAPT_DEVICE int uniform(int x) { return static_cast<int>(__reduce_or_sync(~0u, static_cast<unsigned>(x))); }

RAPT_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

RAPT_DEVICE float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

struct Bf16 {};
struct F16 {};

// Four matrices of 8 × 8 numbers → shared memory; lane 8m + n gives the address of row n of matrix m, and a lane holds, of
// each, the row lane/4 and the columns 2·(lane%4) + {0, 1}.
RAPT_DEVICE void store_matrices(void* to, const std::uint32_t (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to)), "r"(x[0]),
               "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

// Two numbers in one register, the first in the low half.
RAPT_DEVICE std::uint32_t pack(float low, float high, Bf16) {
  std::uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
RAPT_DEVICE std::uint32_t pack(float low, float high, F16) {
  std::uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

RAPT_DEVICE float2 unpack(std::uint32_t x, Bf16) {
  return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xFFFF0000u));
}
RAPT_DEVICE float2 unpack(std::uint32_t x, F16) {
  float2 y;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
      : "=f"(y.x), "=f"(y.y)
      : "r"(x));
  return y;
}

}  // namespace rapt::inline v1::cuda
