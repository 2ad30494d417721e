#include "backends/cpu/buffer.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "backends/host/poison.h"
#include "rapt/threads.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace rapt::inline v1 {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;
// From this size on, huge pages save thousands of page faults, on which threads wait for each other.
constexpr std::size_t kManyPages = std::size_t{4} << 20;

bool is_mapped(std::size_t bytes) {
#if defined(__linux__)
  return bytes >= kLarge;
#else
  static_cast<void>(bytes);
  return false;
#endif
}

void* allocate(std::size_t bytes) {
#if defined(__linux__)
  if (is_mapped(bytes)) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    if (bytes >= kManyPages) madvise(memory, bytes, MADV_HUGEPAGE);  // a hint; small pages work as well
    return memory;
  }
#endif
  void* memory = std::aligned_alloc(64, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release(void* memory, std::size_t bytes) {
  allow_memory(memory, bytes);
#if defined(__linux__)
  if (is_mapped(bytes)) {
    munmap(memory, bytes);
    return;
  }
#endif
  std::free(memory);
}

// Pieces are kept for the next call: new ones cost a page fault per 4 KiB. At most kKeep bytes stay, and idle large
// pieces are freed before a new large one is allocated, so that memory stays within what the paths promise.
class Kept {
 public:
  static constexpr std::size_t kSmallest = std::size_t{1} << 15;
  static constexpr std::size_t kLargest = std::size_t{1} << 25;
  static constexpr std::size_t kKeep = std::size_t{48} << 20;

  Kept() {
    for (std::size_t n = 0; n < pieces_.size(); ++n) pieces_[n].reserve(kKeep / (kSmallest << n));
  }

  // Held across a fork, or the child could inherit a lock whose owner it lacks.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  static bool keeps(std::size_t bytes) { return bytes >= kSmallest && bytes <= kLargest; }

  // Null if there is none; idle large ones have then been freed.
  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (!keeps(bytes) || pieces_[place(bytes)].empty()) {
      if (bytes >= kLarge) release_from(place(kLarge));
      return nullptr;
    }
    std::vector<void*>& pieces = pieces_[place(bytes)];
    void* memory = pieces.back();
    pieces.pop_back();
    total_ -= bytes;
    return memory;
  }

  void release_all() {
    const std::lock_guard lock(mutex_);
    release_from(0);
  }

  bool give(void* memory, std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& pieces = pieces_[place(bytes)];
    if (total_ + bytes > kKeep || pieces.size() == pieces.capacity()) return false;
    pieces.push_back(memory);
    total_ += bytes;
    return true;
  }

 private:
  static constexpr std::size_t kPlaces = std::bit_width(kLargest / kSmallest);
  static std::size_t place(std::size_t bytes) {
    return static_cast<std::size_t>(std::bit_width(bytes / kSmallest)) - 1;
  }

  void release_from(std::size_t first) {
    for (std::size_t n = first; n < pieces_.size(); ++n) {
      for (void* memory : pieces_[n]) release(memory, kSmallest << n);
      total_ -= pieces_[n].size() * (kSmallest << n);
      pieces_[n].clear();
    }
  }

  std::mutex mutex_;
  std::array<std::vector<void*>, kPlaces> pieces_;  // of kSmallest · 2ⁿ bytes
  std::size_t total_ = 0;
};

// Never destroyed: calls may come until the process ends. Made without a lock, which a child could inherit from a
// thread that it lacks.
Kept& kept() {
  static constinit std::atomic<Kept*> instance{nullptr};
  Kept* found = instance.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  auto made = std::make_unique<Kept>();
  return instance.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel) ? *made.release() : *found;
}

#if defined(__unix__) || defined(__APPLE__)
// At load, when there is one thread.
[[maybe_unused]] const int kKeptAtFork =
    pthread_atfork([] { kept().lock(); }, [] { kept().unlock(); }, [] { kept().unlock(); });
#endif

// With room to read a vector past the end.
std::size_t padded_size(std::size_t bytes) { return (bytes + 127) / 64 * 64; }

// The allocated size, rounded so that pieces are reused.
std::size_t whole_size(std::size_t bytes) {
  const std::size_t padded = padded_size(bytes);
  return Kept::keeps(padded) ? std::bit_ceil(padded) : padded;
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const std::size_t whole = whole_size(bytes);
  data_ = kept().take(whole);
  if (data_ == nullptr) data_ = allocate(whole);
  const std::size_t padded = padded_size(bytes);
  allow_memory(data_, padded);
  forbid_memory(static_cast<std::byte*>(data_) + padded, whole - padded);
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  const std::size_t whole = whole_size(bytes_);
  // Before another thread can get it.
  forbid_memory(data_, whole);
  if (Kept::keeps(whole) && kept().give(data_, whole)) return;
  release(data_, whole);
}

void release_buffers() { kept().release_all(); }

}  // namespace rapt::inline v1
