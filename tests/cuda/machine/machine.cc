// Fibers, the barriers of a block and of its warps, and launches.

#include "cuda/machine/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include "cuda/machine/multiprocessor.h"

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

thread_local cudaError_t last_error = cudaSuccess;

Multiprocessor::Multiprocessor() {
  const auto reserve = [](std::size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(p);
  };
  stacks = reserve(kStack * kMostThreads);
  shared = reserve(kShared);
}

Multiprocessor& processor() {
  static Multiprocessor& m = *new Multiprocessor;
  return m;
}

namespace {

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

}  // namespace machine
