#include <cstdlib>
#include <new>

#include "kernels/head_waves.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace rapt {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;
// From here on large pages save thousands of page faults, for which threads wait on each other.
constexpr std::size_t kManyPages = std::size_t{4} << 20;

bool is_mapped(std::size_t bytes) {
#if defined(__linux__)
  return bytes >= kLarge;
#else
  static_cast<void>(bytes);
  return false;
#endif
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
#if defined(__linux__)
  if (is_mapped(bytes)) {
    void* memory = mmap(nullptr, bytes + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    if (bytes >= kManyPages) madvise(memory, bytes + 64, MADV_HUGEPAGE);  // a wish; small pages do as well
    data_ = memory;
    return;
  }
#endif
  data_ = std::aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (data_ == nullptr) throw std::bad_alloc();
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
#if defined(__linux__)
  if (is_mapped(bytes_)) {
    munmap(data_, bytes_ + 64);
    return;
  }
#endif
  std::free(data_);
}

}  // namespace rapt
