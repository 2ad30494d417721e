#include "cuda/machine/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/machine/sm90.h"

#if !defined(__x86_64__)
#error "expected an x86-64 processor: fibers are switched by a few lines of its assembly"
#endif

// Keeps what a call keeps, and goes on where the other fiber left.
asm(R"(
.text
.globl rapt_machine_switch
.type rapt_machine_switch, @function
rapt_machine_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size rapt_machine_switch, .-rapt_machine_switch
)");
extern "C" void rapt_machine_switch(void** from, void* to);

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace machine {
namespace {

constexpr std::size_t kStack = 256 << 10, kShared = 227 << 10;
constexpr int kMostThreads = 1024, kNamed = 16;

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

  Multiprocessor() {
    const auto reserve = [](std::size_t bytes) {
      void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED) throw std::bad_alloc();
      return static_cast<std::byte*>(p);
    };
    stacks = reserve(kStack * kMostThreads);
    shared = reserve(kShared);
  }
  Fiber& fiber() { return fibers[static_cast<std::size_t>(current)]; }
  Warp& warp() { return warps[static_cast<std::size_t>(current / 32)]; }
};

Multiprocessor& processor() {
  static Multiprocessor& m = *new Multiprocessor;
  return m;
}

void yield() {
  Multiprocessor& m = processor();
  rapt_machine_switch(&m.fiber().stack_pointer, m.scheduler);
}

void open_gate(Gate& gate) {
  gate.arrived = 0;
  ++gate.generation;
  changed();
}
void arrive(Gate& gate, int expected) {
  if (++gate.arrived >= expected) open_gate(gate);
}
void pass(Gate& gate, int expected) {
  const unsigned own = gate.generation;
  arrive(gate, expected);
  wait_until([&] { return gate.generation != own; });
}

// The next barrier of the block begins with no votes.
void open_block() {
  Multiprocessor& m = processor();
  m.any[~m.block.generation & 1] = 0;
  m.all[~m.block.generation & 1] = 1;
  open_gate(m.block);
}

void run_fiber() {
  Multiprocessor& m = processor();
  (*m.body)();
  Fiber& f = m.fiber();
  if (!f.open.empty() || !f.committed.empty()) m.failure = "a thread ended before its products on the tensor cores";
  f.done = true;
  changed();
  if (--m.live > 0 && m.block.arrived >= m.live) open_block();
  yield();
  std::abort();
}

void prepare(int n, dim3 threads) {
  Multiprocessor& m = processor();
  Fiber& f = m.fibers[static_cast<std::size_t>(n)];
  const auto number = static_cast<unsigned>(n);
  f.thread = {number % threads.x, number / threads.x % threads.y, number / (threads.x * threads.y)};
  f.done = false;
  f.open.clear();
  f.committed.clear();
  auto* top = reinterpret_cast<void**>(m.stacks + kStack * static_cast<std::size_t>(n + 1));
  // What the switch takes back: six registers and where to go on; a function begins 8 bytes past a multiple of 16.
  top -= 2;
  *top = reinterpret_cast<void*>(&run_fiber);
  top -= 6;
  for (int r = 0; r < 6; ++r) top[r] = nullptr;
  f.stack_pointer = top;
}

void run_block(dim3 threads) {
  Multiprocessor& m = processor();
  m.count = m.live = static_cast<int>(threads.x * threads.y * threads.z);
  m.block = {};
  m.named = {};
  for (Warp& warp : m.warps) warp.gate = {};
  m.any[0] = 0;
  m.all[0] = 1;
  // NaN in every type: a number that is read before it is written shows.
  std::memset(m.shared, 0xff, kShared);
  for (int n = 0; n < m.count; ++n) prepare(n, threads);
  while (m.live > 0 && m.failure.empty()) {
    const std::uint64_t before = m.events;
    for (int n = 0; n < m.count && m.failure.empty(); ++n) {
      if (m.fibers[static_cast<std::size_t>(n)].done) continue;
      m.current = n;
      threadIdx = m.fiber().thread;
      rapt_machine_switch(&m.scheduler, m.fiber().stack_pointer);
    }
    if (m.events == before && m.failure.empty()) m.failure = "all threads of a block wait for each other";
  }
}

std::mutex& one_launch() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

int lane() { return processor().current % 32; }
void* shared_memory() { return processor().shared; }

std::uint32_t shared_offset(const void* p) {
  const auto offset = static_cast<const std::byte*>(p) - processor().shared;
  if (offset < 0 || offset >= static_cast<std::ptrdiff_t>(kShared)) fail("an address outside of shared memory");
  return static_cast<std::uint32_t>(offset);
}
void* shared_at(std::uint32_t offset) {
  if (offset >= kShared) fail("an offset outside of shared memory");
  return processor().shared + offset;
}

void changed() { ++processor().events; }
void wait_until(const std::function<bool()>& ready) {
  while (!ready()) yield();
}
void fail(const char* what) {
  processor().failure = what;
  for (;;) yield();
}

void run(dim3 blocks, dim3 threads, std::size_t shared_bytes, const std::function<void()>& thread) {
  const std::lock_guard lock(one_launch());
  Multiprocessor& m = processor();
  if (threads.x * threads.y * threads.z > kMostThreads || shared_bytes > kShared ||
      blocks.x * blocks.y * blocks.z == 0 || blocks.y > 65535 || blocks.z > 65535) {
    last_error = cudaErrorInvalidConfiguration;
    return;
  }
  m.body = &thread;
  blockDim = threads;
  gridDim = blocks;
  m.failure.clear();
  for (unsigned z = 0; z < blocks.z; ++z)
    for (unsigned y = 0; y < blocks.y; ++y)
      for (unsigned x = 0; x < blocks.x; ++x) {
        blockIdx = {x, y, z};
        run_block(threads);
        if (m.failure.empty()) continue;
        std::fprintf(stderr, "machine: block %u %u %u, thread %d: %s\n", x, y, z, m.current, m.failure.c_str());
        last_error = cudaErrorLaunchFailure;
        return;
      }
}

int sync_block(int any, int all) {
  Multiprocessor& m = processor();
  const unsigned own = m.block.generation;
  m.any[own & 1] |= any != 0;
  m.all[own & 1] &= all != 0;
  if (++m.block.arrived >= m.live) open_block();
  wait_until([&] { return m.block.generation != own; });
  return m.any[own & 1] | m.all[own & 1] << 1;
}

void sync_named(int id, int threads) { pass(processor().named.at(static_cast<std::size_t>(id)), threads); }
void arrive_named(int id, int threads) { arrive(processor().named.at(static_cast<std::size_t>(id)), threads); }

const Shares& share(unsigned mask, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  Multiprocessor& m = processor();
  Warp& warp = m.warp();
  const int first = m.current / 32 * 32, lanes = std::min(32, m.count - first);
  const unsigned present = lanes == 32 ? ~0u : (1u << lanes) - 1;
  Shares& shares = warp.shares[warp.gate.generation & 1];
  const std::uint32_t given[4] = {a, b, c, d};
  std::memcpy(shares.of[lane()], given, sizeof given);
  pass(warp.gate, std::popcount(mask & present));
  return shares;
}

// ---- mbarriers and the copy engine ---------------------------------------------------------------------------------

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

CUresult encode(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* data, const cuuint64_t* sizes,
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

// Bits 4 to 6 of an address, changed by bits 7 to 9.
std::uint32_t swizzled(std::uint32_t address) { return address ^ (address >> 3 & 0x70); }

}  // namespace

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

// ---- the tensor cores ----------------------------------------------------------------------------------------------

float number(std::uint32_t bits, bool bf16) {
  if (bf16) return std::bit_cast<float>(bits << 16);
  __half_raw raw;
  raw.x = static_cast<unsigned short>(bits);
  return __half2float(__half(raw));
}
std::uint32_t pack(float low, float high, bool bf16) {
  const auto bits = [&](float x) -> std::uint32_t {
    if (bf16) return __nv_bfloat16_raw(__float2bfloat16_rn(x)).x;
    return __half_raw(__float2half_rn(x)).x;
  };
  return bits(low) | bits(high) << 16;
}

namespace {

std::uint32_t half_of(std::uint32_t x, int n) { return n == 0 ? x & 0xffff : x >> 16; }

// The 16 numbers that are added up, of each line of an operand in shared memory.
void read_lines(std::uint64_t descriptor, bool down, int first, int lines, bool bf16, float (*to)[16]) {
  const auto begin = static_cast<std::uint32_t>(descriptor & 0x3fff) << 4;
  const auto panel = static_cast<std::uint32_t>(descriptor >> 16 & 0x3fff) << 4;
  const auto eight = static_cast<std::uint32_t>(descriptor >> 32 & 0x3fff) << 4;
  for (int n = 0; n < lines; ++n)
    for (int k = 0; k < 16; ++k) {
      const int row = down ? k : first + n, column = down ? first + n : k;
      const auto offset = static_cast<std::uint32_t>(column / 64) * (down ? panel : 0) +
                          static_cast<std::uint32_t>(row / 8) * eight + static_cast<std::uint32_t>(row % 8) * 128 +
                          static_cast<std::uint32_t>(column % 64) * 2;
      std::uint16_t bits;
      std::memcpy(&bits, shared_at(swizzled(begin + offset)), 2);
      to[n][k] = number(bits, bf16);
    }
}

// Product n of the first committed group, for all lanes of the warp: 16 rows.
void compute(int first_lane, std::size_t group, std::size_t n) {
  Multiprocessor& m = processor();
  const auto of_lane = [&](int lane) -> const Product& {
    return m.fibers[static_cast<std::size_t>(first_lane + lane)].committed[group][n];
  };
  const Product& p = of_lane(0);
  float left[16][16], right[256][16];
  if (p.a_in_memory) read_lines(p.a, p.a_down, 16 * (first_lane / 32 % 4), 16, p.bf16, left);
  else
    for (int row = 0; row < 16; ++row)
      for (int k = 0; k < 16; ++k)
        left[row][k] = number(half_of(of_lane(row % 8 * 4).left[k % 8 / 2][k / 8 * 2 + row / 8], k % 2), p.bf16);
  read_lines(p.b, p.b_down, 0, p.columns, p.bf16, right);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < p.columns; ++column) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += left[row][k] * right[column][k];
      float& d = of_lane(row % 8 * 4 + column % 8 / 2).d[column / 8 * 4 + row / 8 * 2 + column % 2];
      d = p.add ? d + sum : sum;
    }
}

}  // namespace

void start_product(Product p, const std::uint32_t* registers) {
  if (registers) {
    const Shares& all = share(~0u, registers[0], registers[1], registers[2], registers[3]);
    for (int n = 0; n < 4; ++n) std::memcpy(p.left[n], all.of[lane() / 4 * 4 + n], sizeof p.left[n]);
  }
  processor().fiber().open.push_back(p);
}
void commit_products() {
  Fiber& f = processor().fiber();
  f.committed.push_back(std::move(f.open));
  f.open.clear();
}
// The last group may be as late as its wait; the first lane computes for all of its warp.
void await_products(int pending) {
  Fiber& f = processor().fiber();
  __syncwarp();
  const std::size_t count = f.committed.size(), left = static_cast<std::size_t>(pending);
  if (lane() == 0)
    for (std::size_t group = 0; group + left < count; ++group)
      for (std::size_t n = 0; n < f.committed[group].size(); ++n) compute(processor().current, group, n);
  __syncwarp();
  if (count > left) f.committed.erase(f.committed.begin(), f.committed.end() - static_cast<std::ptrdiff_t>(left));
}

void store_matrices(void* to, const std::uint32_t (&x)[4]) {
  const Shares& rows = share(~0u, shared_offset(to));
  for (std::uint32_t m = 0; m < 4; ++m)
    std::memcpy(shared_at(rows.of[8 * m + static_cast<std::uint32_t>(lane()) / 4][0] +
                          4 * (static_cast<std::uint32_t>(lane()) % 4)),
                &x[m], 4);
  __syncwarp();
}
void load_matrices(std::uint32_t (&to)[4], std::uint32_t address, bool transposed) {
  const Shares& rows = share(~0u, address);
  const auto own = static_cast<std::uint32_t>(lane());
  for (std::uint32_t m = 0; m < 4; ++m) {
    std::uint16_t pair[2];
    for (std::uint32_t e = 0; e < 2; ++e) {
      const std::uint32_t row = transposed ? own % 4 * 2 + e : own / 4, column = transposed ? own / 4 : own % 4 * 2 + e;
      std::memcpy(&pair[e], shared_at(rows.of[8 * m + row][0] + 2 * column), 2);
    }
    to[m] = pair[0] | static_cast<std::uint32_t>(pair[1]) << 16;
  }
  __syncwarp();
}
void multiply_add(float* sum, const std::uint32_t (&left)[4], std::uint32_t low, std::uint32_t high, bool bf16) {
  const int own = lane();
  Shares a = share(~0u, left[0], left[1], left[2], left[3]);
  const Shares& b = share(~0u, low, high);
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 2; ++c) {
      float x = 0;
      for (int k = 0; k < 16; ++k) {
        const std::uint32_t* of_row = a.of[own / 4 * 4 + k % 8 / 2];
        const std::uint32_t of_column = b.of[(own % 4 * 2 + c) * 4 + k % 8 / 2][k / 8];
        x += number(half_of(of_row[k / 8 * 2 + r], k % 2), bf16) * number(half_of(of_column, k % 2), bf16);
      }
      sum[2 * r + c] += x;
    }
}

}  // namespace machine

// ---- the runtime -----------------------------------------------------------------------------------------------------

using machine::last_error;

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? "a kernel failed"
         : error == cudaSuccess          ? "no error"
                                         : "an error of the device";
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "a machine of the tests");
  properties->major = 9;
  properties->totalGlobalMem = std::size_t{8} << 30;
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 4 : attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}
// As NaN, so that a number that is read before it is written shows.
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!*data) return cudaErrorMemoryAllocation;
  std::memset(*data, 0xff, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** data, std::size_t bytes, cudaMemPool_t, cudaStream_t) {
  return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t) { return cudaFree(data); }
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return cudaSuccess; }
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  if (bytes > 0) std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
  return value <= static_cast<int>(machine::kShared) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *function = known ? reinterpret_cast<void*>(&machine::encode) : nullptr;
  if (found) *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"
