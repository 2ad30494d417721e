#pragma once

#include "backends/cuda/array.h"

// The instructions of backends/cuda/hopper/sm90.h and mma.h, on the CPU. The names are theirs, and so is what each does.
namespace machine {

using Barrier = std::uint64_t;
void barrier_init(Barrier* b, int arrivals);
void barrier_arrive(Barrier* b, std::uint32_t more_bytes);
void barrier_wait(const Barrier* b, std::uint32_t phase);
void copy_box(void* to, const CUtensorMap* map, Barrier* b, const int (&at)[4]);
void copy_bytes(void* to, const void* from, Barrier* b, std::uint32_t bytes);
void store_bytes(void* to, const void* from, std::uint32_t bytes);
void add_bytes(float* to, const void* from, std::uint32_t bytes);

// d (+)= a·b of a warpgroup: 64 rows, 16 numbers each, `columns` columns.
struct Product {
  float* d;
  int columns;
  bool bf16, add;
  bool b_down, a_down;  // the sum runs down the rows of the operand, as SumOver::columns says
  bool a_in_memory;
  std::uint64_t a, b;
  std::uint32_t left[4][4];  // the registers of the four lanes that have the rows
};
void start_product(Product product, const std::uint32_t* registers);
void commit_products();
void await_products(int pending);

void store_matrices(void* to, const std::uint32_t (&x)[4]);
void load_matrices(std::uint32_t (&to)[4], std::uint32_t address, bool transposed);
void multiply_add(float* sum, const std::uint32_t (&left)[4], std::uint32_t low, std::uint32_t high, bool bf16);
float number(std::uint32_t bits, bool bf16);
std::uint32_t pack(float low, float high, bool bf16);

}  // namespace machine

namespace rapt::inline v1::cuda {

using Barrier = std::uint64_t;

RAPT_DEVICE std::uint32_t shared_address(const void* p) { return machine::shared_offset(p); }
RAPT_DEVICE void barrier_init(Barrier* b, int arrivals) { machine::barrier_init(b, arrivals); }
RAPT_DEVICE void barrier_init_fence() {}
RAPT_DEVICE void barrier_arrive(Barrier* b) { machine::barrier_arrive(b, 0); }
RAPT_DEVICE void barrier_expect(Barrier* b, std::uint32_t bytes) { machine::barrier_arrive(b, bytes); }
RAPT_DEVICE void barrier_wait(Barrier* b, std::uint32_t phase) { machine::barrier_wait(b, phase); }

RAPT_DEVICE void copy_box(void* to, const CUtensorMap* map, Barrier* b, int x, int y, int z, int w) {
  machine::copy_box(to, map, b, {x, y, z, w});
}
RAPT_DEVICE void copy_bytes(void* to, const void* from, Barrier* b, std::uint32_t bytes) {
  machine::copy_bytes(to, from, b, bytes);
}
RAPT_DEVICE void store_bytes(void* to, const void* from, std::uint32_t bytes) { machine::store_bytes(to, from, bytes); }
RAPT_DEVICE void add_bytes(float* to, const void* from, std::uint32_t bytes) { machine::add_bytes(to, from, bytes); }
RAPT_DEVICE void await_stores_read() {}
RAPT_DEVICE void await_stores() {}
RAPT_DEVICE void fence_shared_writes() {}

RAPT_DEVICE void await_flag(const unsigned* flag, unsigned value) {
  machine::wait_until([&] { return *flag == value; });
}
RAPT_DEVICE void fence_memory() {}
RAPT_DEVICE void set_flag(unsigned* flag, unsigned value) {
  *flag = value;
  machine::changed();
}

inline constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
inline constexpr std::uint64_t kEightRows = std::uint64_t{1024 >> 4} << 32;
enum class SumOver { rows, columns };
RAPT_DEVICE std::uint64_t along_rows(const void* p) {
  return kSwizzle128 | kEightRows | std::uint64_t{1} << 16 | (shared_address(p) & 0x3FFFF) >> 4;
}
RAPT_DEVICE std::uint64_t down_rows(const void* p, std::uint32_t panel) {
  return kSwizzle128 | kEightRows | std::uint64_t{panel >> 4} << 16 | (shared_address(p) & 0x3FFFF) >> 4;
}
RAPT_DEVICE std::uint64_t advance(std::uint64_t operand, std::uint32_t bytes) {
  return (operand & ~std::uint64_t{0xFFFFFFFF}) | (static_cast<std::uint32_t>(operand) + (bytes >> 4));
}

RAPT_DEVICE void wgmma_fence() {}
RAPT_DEVICE void wgmma_commit() { machine::commit_products(); }
template <int kPending, int N>
RAPT_DEVICE void wgmma_wait(float (&)[N]) {
  machine::await_products(kPending);
}

RAPT_DEVICE void named_wait(int id, int threads) { machine::sync_named(id, threads); }
RAPT_DEVICE void named_arrive(int id, int threads) { machine::arrive_named(id, threads); }
template <int N>
RAPT_DEVICE void take_registers() {}
template <int N>
RAPT_DEVICE void give_registers() {}
RAPT_DEVICE int uniform(int x) { return static_cast<int>(__reduce_or_sync(~0u, static_cast<unsigned>(x))); }

RAPT_DEVICE float exp2_fast(float x) { return exp2f(x); }
RAPT_DEVICE float reciprocal_fast(float x) { return 1 / x; }

struct Bf16 {};
struct F16 {};

RAPT_DEVICE void store_matrices(void* to, const std::uint32_t (&x)[4]) { machine::store_matrices(to, x); }
RAPT_DEVICE std::uint32_t pack(float low, float high, Bf16) { return machine::pack(low, high, true); }
RAPT_DEVICE std::uint32_t pack(float low, float high, F16) { return machine::pack(low, high, false); }
RAPT_DEVICE float2 unpack(std::uint32_t x, Bf16) {
  return make_float2(machine::number(x, true), machine::number(x >> 16, true));
}
RAPT_DEVICE float2 unpack(std::uint32_t x, F16) {
  return make_float2(machine::number(x, false), machine::number(x >> 16, false));
}

RAPT_DEVICE void load_matrices(std::uint32_t (&to)[4], std::uint32_t address) {
  machine::load_matrices(to, address, false);
}
RAPT_DEVICE void load_transposed(std::uint32_t (&to)[4], std::uint32_t address) {
  machine::load_matrices(to, address, true);
}
RAPT_DEVICE void multiply_add(float* sum, const std::uint32_t (&left)[4], std::uint32_t low, std::uint32_t high, Bf16) {
  machine::multiply_add(sum, left, low, high, true);
}
RAPT_DEVICE void multiply_add(float* sum, const std::uint32_t (&left)[4], std::uint32_t low, std::uint32_t high, F16) {
  machine::multiply_add(sum, left, low, high, false);
}
RAPT_DEVICE float smaller(float a, float b) { return a != a || b != b ? std::nanf("") : (b < a ? b : a); }
RAPT_DEVICE void await_kernel_before() {}
RAPT_DEVICE void allow_kernel_after() {}

// Every width of wgmma.h.
template <class T>
constexpr bool kIsBf16 = false;
template <>
constexpr bool kIsBf16<Bf16> = true;

template <SumOver kSum, SumOver kLeft = SumOver::rows, int N, class T>
RAPT_DEVICE void wgmma(float (&d)[N], std::uint64_t a, std::uint64_t b, T, bool add) {
  machine::start_product({.d = d,
                          .columns = 2 * N,
                          .bf16 = kIsBf16<T>,
                          .add = add,
                          .b_down = kSum == SumOver::columns,
                          .a_down = kLeft == SumOver::columns,
                          .a_in_memory = true,
                          .a = a,
                          .b = b,
                          .left = {}},
                         nullptr);
}
template <SumOver kSum, int N, class T>
RAPT_DEVICE void wgmma(float (&d)[N], const std::uint32_t (&a)[4], std::uint64_t b, T, bool add) {
  machine::start_product({.d = d,
                          .columns = 2 * N,
                          .bf16 = kIsBf16<T>,
                          .add = add,
                          .b_down = kSum == SumOver::columns,
                          .a_down = false,
                          .a_in_memory = false,
                          .a = 0,
                          .b = b,
                          .left = {}},
                         a);
}

}  // namespace rapt::inline v1::cuda
