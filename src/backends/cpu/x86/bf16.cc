#include "backends/cpu/x86/bf16.h"

#include <atomic>
#include <cstring>

#include "rapt/threads.h"

#if defined(RAPT_BF16)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <emmintrin.h>
#endif

namespace rapt::inline v1 {

void copy_rows(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
               std::uint16_t* to, std::ptrdiff_t to_stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * to_stride, from + r * from_stride, static_cast<std::size_t>(cols) * 2);
    std::memset(to + r * to_stride + cols, 0, static_cast<std::size_t>(to_stride - cols) * 2);
  }
}

void interleave_rows(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                     std::int64_t padded_rows, std::uint32_t* to, std::ptrdiff_t to_stride) {
  for (std::int64_t r = 0; r < padded_rows; r += 2, to += to_stride) {
    const std::uint16_t* low = from + r * from_stride;
    const std::uint16_t* high = low + from_stride;
    const std::int64_t both = r + 1 < rows ? cols : 0;
    for (std::int64_t c = 0; c < both; ++c) to[c] = low[c] | static_cast<std::uint32_t>(high[c]) << 16;
    const std::int64_t one = r < rows ? cols : 0;
    for (std::int64_t c = both; c < one; ++c) to[c] = low[c];
    for (std::int64_t c = one; c < to_stride; ++c) to[c] = 0;
  }
}

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of the last loop, wrongly, where it knows the sizes and that nothing is left.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Waggressive-loop-optimizations"
#endif
void transpose_words(const std::uint32_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                     std::uint32_t* to, std::ptrdiff_t to_stride) {
  std::int64_t r = 0;
#if defined(RAPT_BF16)
  const auto load = [&](std::int64_t row, std::int64_t col) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + row * from_stride + col));
  };
  const auto store = [&](std::int64_t row, std::int64_t col, __m128i v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + row * to_stride + col), v);
  };
  for (; r + 4 <= rows; r += 4) {
    std::int64_t c = 0;
    for (; c + 4 <= cols; c += 4) {
      const __m128i w = load(r, c), x = load(r + 1, c), y = load(r + 2, c), z = load(r + 3, c);
      const __m128i wx0 = _mm_unpacklo_epi32(w, x), wx1 = _mm_unpackhi_epi32(w, x);
      const __m128i yz0 = _mm_unpacklo_epi32(y, z), yz1 = _mm_unpackhi_epi32(y, z);
      store(c, r, _mm_unpacklo_epi64(wx0, yz0));
      store(c + 1, r, _mm_unpackhi_epi64(wx0, yz0));
      store(c + 2, r, _mm_unpacklo_epi64(wx1, yz1));
      store(c + 3, r, _mm_unpackhi_epi64(wx1, yz1));
    }
    for (; c < cols; ++c)
      for (std::int64_t n = r; n < r + 4; ++n) to[c * to_stride + n] = from[n * from_stride + c];
  }
#endif
  for (; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) to[c * to_stride + r] = from[r * from_stride + c];
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

void transpose_rows(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                    std::int64_t padded_cols, std::uint16_t* to) {
  constexpr std::int64_t kStrip = 16;
  std::uint32_t pairs[kTileKeys / 2 * kStrip];
  std::uint32_t transposed[kStrip * kTileKeys / 2];
  for (std::int64_t c = 0; c < padded_cols; c += kStrip) {
    const std::int64_t width = cols - c < kStrip ? (cols > c ? cols - c : 0) : kStrip;
    interleave_rows(from + c, from_stride, rows, width, kTileKeys, pairs, kStrip);
    transpose_words(pairs, kStrip, kTileKeys / 2, kStrip, transposed, kTileKeys / 2);
    std::memcpy(to + c * kTileKeys, transposed, sizeof transposed);
  }
}

#if defined(RAPT_BF16)
namespace bf16_dot {
extern const Bf16Kernels kernels;
}
namespace bf16_tiles {
extern const Bf16Kernels kernels;
}

namespace {

// The system saves tiles of a process only after it was asked to.
bool system_allows_tiles() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023;
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

Bf16Choices find() {
  Bf16Choices choices;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || (a & (1U << 5)) == 0) return choices;
  choices.list[choices.count++] = &bf16_dot::kernels;
  __get_cpuid_count(7, 0, &a, &b, &c, &d);
  const bool tiles = (d & (1U << 22)) != 0 && (d & (1U << 24)) != 0;
  if (tiles && system_allows_tiles()) choices.list[choices.count++] = &bf16_tiles::kernels;
  return choices;
}

}  // namespace

const Bf16Choices& available_bf16() {
  static const Bf16Choices choices = find();
  return choices;
}

namespace {

std::atomic<const Bf16Kernels*>& chosen() {
  const Bf16Choices& choices = available_bf16();
  static std::atomic<const Bf16Kernels*> kernels{choices.count > 0 ? choices.list[choices.count - 1] : nullptr};
  return kernels;
}

}  // namespace

const Bf16Kernels* active_bf16(Isa isa) {
  return isa == Isa::avx512 ? chosen().load(std::memory_order_relaxed) : nullptr;
}

void set_active_bf16(const Bf16Kernels* kernels) { chosen().store(kernels, std::memory_order_relaxed); }

#else

const Bf16Choices& available_bf16() {
  static const Bf16Choices none;
  return none;
}

const Bf16Kernels* active_bf16(Isa) { return nullptr; }

void set_active_bf16(const Bf16Kernels*) {}

#endif

}  // namespace rapt::inline v1
