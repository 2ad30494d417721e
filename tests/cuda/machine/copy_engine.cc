// mbarriers and the tensor copy engine.

#include <bit>
#include <cstring>

#include "cuda/machine/multiprocessor.h"

namespace machine {
namespace {

struct BarrierState {
  std::int32_t bytes;
  std::uint16_t pending;
  std::uint16_t arrivals : 15, phase : 1;
};
static_assert(sizeof(BarrierState) == sizeof(Barrier));

BarrierState state_of(const Barrier* b) { return std::bit_cast<BarrierState>(*b); }
void set_state(Barrier* b, BarrierState s) {
  if (s.pending == 0 && s.bytes == 0) {
    s.pending = s.arrivals;
    s.phase ^= 1;
  }
  *b = std::bit_cast<Barrier>(s);
  changed();
}
void arrived_bytes(Barrier* b, std::uint32_t bytes) {
  BarrierState s = state_of(b);
  s.bytes -= static_cast<std::int32_t>(bytes);
  set_state(b, s);
}

struct TensorMap {
  std::byte* data;
  cuuint64_t sizes[4], strides[3];
  cuuint32_t box[4];
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

}  // namespace

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* data, const cuuint64_t* sizes,
                      const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t*, CUtensorMapInterleave,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  TensorMap m{static_cast<std::byte*>(data), {}, {}, {}};
  bool good = rank == 4 && swizzle == CU_TENSOR_MAP_SWIZZLE_128B && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  for (int n = 0; n < 4; ++n) {
    m.sizes[n] = sizes[n];
    m.box[n] = box[n];
    good = good && sizes[n] > 0 && box[n] > 0 && box[n] <= 256;
    if (n == 3) continue;
    m.strides[n] = strides[n];
    good = good && strides[n] % 16 == 0 && strides[n] > 0;
  }
  if (!good || box[0] * 2 > 128) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(map, &m, sizeof m);
  return CUDA_SUCCESS;
}

void barrier_init(Barrier* b, int arrivals) {
  *b = std::bit_cast<Barrier>(
      BarrierState{0, static_cast<std::uint16_t>(arrivals), static_cast<std::uint16_t>(arrivals), 0});
}
void barrier_arrive(Barrier* b, std::uint32_t more_bytes) {
  BarrierState s = state_of(b);
  if (s.pending == 0) fail("more arrivals than an mbarrier expects");
  s.bytes += static_cast<std::int32_t>(more_bytes);
  --s.pending;
  set_state(b, s);
}
void barrier_wait(const Barrier* b, std::uint32_t phase) {
  wait_until([&] { return state_of(b).phase != phase; });
}

void copy_box(void* to, const CUtensorMap* map, Barrier* b, const int (&at)[4]) {
  TensorMap m;
  std::memcpy(&m, map, sizeof m);
  const std::uint32_t first = shared_offset(to);
  if (first % 128 != 0) fail("expected a box of a tensor at a multiple of 128 bytes");
  std::uint32_t row = 0;
  for (int w = at[3]; w < at[3] + static_cast<int>(m.box[3]); ++w)
    for (int z = at[2]; z < at[2] + static_cast<int>(m.box[2]); ++z)
      for (int y = at[1]; y < at[1] + static_cast<int>(m.box[1]); ++y, ++row) {
        const auto within = [&](int n, int x) { return x >= 0 && static_cast<cuuint64_t>(x) < m.sizes[n]; };
        const bool there = within(1, y) && within(2, z) && within(3, w);
        for (int c = 0; c < static_cast<int>(m.box[0]); ++c) {
          std::uint16_t x = 0;
          if (there && within(0, at[0] + c))
            std::memcpy(&x,
                        m.data + static_cast<cuuint64_t>(w) * m.strides[2] + static_cast<cuuint64_t>(z) * m.strides[1] +
                            static_cast<cuuint64_t>(y) * m.strides[0] + static_cast<cuuint64_t>(at[0] + c) * 2,
                        2);
          std::memcpy(shared_at(swizzled(first + row * m.box[0] * 2 + static_cast<std::uint32_t>(c) * 2)), &x, 2);
        }
      }
  arrived_bytes(b, row * m.box[0] * 2);
}

namespace {
void expect_sixteens(const void* memory, const void* own, std::uint32_t bytes) {
  if (bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(memory) % 16 != 0 || shared_offset(own) % 16 != 0)
    fail("expected addresses and bytes that are multiples of 16");
}
}  // namespace

void copy_bytes(void* to, const void* from, Barrier* b, std::uint32_t bytes) {
  expect_sixteens(from, to, bytes);
  std::memcpy(to, from, bytes);
  arrived_bytes(b, bytes);
}
void store_bytes(void* to, const void* from, std::uint32_t bytes) {
  expect_sixteens(to, from, bytes);
  std::memcpy(to, from, bytes);
}
void add_bytes(float* to, const void* from, std::uint32_t bytes) {
  expect_sixteens(to, from, bytes);
  const auto* x = static_cast<const float*>(from);
  for (std::uint32_t n = 0; n < bytes / 4; ++n) to[n] += x[n];
}

}  // namespace machine
