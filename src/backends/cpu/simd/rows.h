#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define RAPT_ARENA_CHECKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RAPT_ARENA_CHECKS 1
#endif
#endif
#if defined(RAPT_ARENA_CHECKS)
#include <sanitizer/asan_interface.h>
#endif

#include "backends/cpu/simd/product.h"

// Moves rows between storage and tiles.
namespace rapt::inline v1::RAPT_TARGET {

// Numbers of a row from n on, as long as vectors of up to kMost lanes fit; returns how far it came.
template <int kMost>
RAPT_FN std::int64_t load_bfloat16(const std::uint16_t* from, std::int64_t n, std::int64_t dim, float* to) {
  const hn::CappedTag<float, kMost> tag;
  const hn::Rebind<std::uint16_t, decltype(tag)> narrow;
  const hn::Rebind<std::uint32_t, decltype(tag)> wide;
  constexpr std::int64_t kStep = hn::MaxLanes(tag);
  for (; n + kStep <= dim; n += kStep) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, from + n)));
    hn::StoreU(hn::BitCast(tag, bits), tag, to + n);
  }
  return n;
}

template <class T>
inline void load_row(const MatrixRef& src, std::int64_t row, std::int64_t dim, T* HWY_RESTRICT dst) {
  const std::int64_t start = row * src.stride;
  std::int64_t n = 0;
  if (src.dtype == dtype_of<T>()) {
    const T* p = static_cast<const T*>(src.data) + start;
    const Tag<T> tag;
    for (; n + kLanes<T> <= dim; n += kLanes<T>) hn::StoreU(hn::LoadU(tag, p + n), tag, dst + n);
    for (; n < dim; ++n) dst[n] = p[n];
    return;
  }
  switch (src.dtype) {
    case Dtype::f32: {
      const float* p = static_cast<const float*>(src.data) + start;
      for (; n < dim; ++n) dst[n] = static_cast<T>(p[n]);
      return;
    }
    case Dtype::f64: {
      const double* p = static_cast<const double*>(src.data) + start;
      for (; n < dim; ++n) dst[n] = static_cast<T>(p[n]);
      return;
    }
    case Dtype::bf16: {
      const std::uint16_t* p = static_cast<const std::uint16_t*>(src.data) + start;
      if constexpr (std::is_same_v<T, float>) {
        n = load_bfloat16<kLanes<T>>(p, n, dim, dst);
        if (n < dim) n = load_bfloat16<4>(p, load_bfloat16<8>(p, n, dim, dst), dim, dst);
      }
      for (; n < dim; ++n) dst[n] = static_cast<T>(to_float(BFloat16{p[n]}));
      return;
    }
    case Dtype::f16: {
      const std::uint16_t* p = static_cast<const std::uint16_t*>(src.data) + start;
      if constexpr (std::is_same_v<T, float>) {
        const hn::Rebind<hwy::float16_t, Tag<float>> half;
        const hn::Rebind<std::uint16_t, Tag<float>> narrow;
        for (; n + kLanes<T> <= dim; n += kLanes<T>)
          hn::StoreU(hn::PromoteTo(Tag<float>(), hn::BitCast(half, hn::LoadU(narrow, p + n))), Tag<float>(), dst + n);
      }
      for (; n < dim; ++n) dst[n] = static_cast<T>(to_float(Float16{p[n]}));
      return;
    }
  }
}

// To nearest, ties to even; a NaN stays one.
template <class D>
RAPT_FN auto bfloat16_bits(D, hn::VFromD<D> x) {
  const hn::Rebind<std::uint32_t, D> wide;
  const hn::Rebind<std::int32_t, D> whole;
  const hn::Rebind<std::uint16_t, D> narrow;
  const auto bits = hn::BitCast(wide, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1U));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7fffU))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(wide, 0x40U));
  const auto is_nan = hn::RebindMask(wide, hn::Ne(x, x));
  return hn::DemoteTo(narrow, hn::BitCast(whole, hn::IfThenElse(is_nan, quiet, rounded)));
}

// As load_bfloat16().
template <int kMost>
RAPT_FN std::int64_t store_bfloat16(const float* from, std::int64_t n, std::int64_t dim, BFloat16* to) {
  const hn::CappedTag<float, kMost> tag;
  const hn::Rebind<std::uint16_t, decltype(tag)> narrow;
  constexpr std::int64_t kStep = hn::MaxLanes(tag);
  for (; n + kStep <= dim; n += kStep)
    hn::StoreU(bfloat16_bits(tag, hn::LoadU(tag, from + n)), narrow, reinterpret_cast<std::uint16_t*>(to + n));
  return n;
}

template <class T>
inline void store_row(const T* HWY_RESTRICT src, std::int64_t dim, const MatrixRef& dst, std::int64_t row) {
  const std::int64_t start = row * dst.stride;
  switch (dst.dtype) {
    case Dtype::f32: {
      float* p = static_cast<float*>(dst.data) + start;
      for (std::int64_t n = 0; n < dim; ++n) p[n] = static_cast<float>(src[n]);
      return;
    }
    case Dtype::f64: {
      double* p = static_cast<double*>(dst.data) + start;
      for (std::int64_t n = 0; n < dim; ++n) p[n] = static_cast<double>(src[n]);
      return;
    }
    case Dtype::bf16: {
      BFloat16* p = static_cast<BFloat16*>(dst.data) + start;
      std::int64_t n = 0;
      if constexpr (std::is_same_v<T, float>) {
        n = store_bfloat16<kLanes<T>>(src, n, dim, p);
        if (n < dim) n = store_bfloat16<4>(src, store_bfloat16<8>(src, n, dim, p), dim, p);
      }
      for (; n < dim; ++n) p[n] = to_bfloat16(static_cast<float>(src[n]));
      return;
    }
    case Dtype::f16: {
      Float16* p = static_cast<Float16*>(dst.data) + start;
      std::int64_t n = 0;
#if HWY_TARGET <= HWY_AVX2
      if constexpr (std::is_same_v<T, float>) {
        const hn::Rebind<hwy::float16_t, Tag<float>> half;
        const hn::Rebind<std::uint16_t, Tag<float>> narrow;
        for (; n + kLanes<T> <= dim; n += kLanes<T>)
          hn::StoreU(hn::BitCast(narrow, hn::DemoteTo(half, hn::LoadU(Tag<float>(), src + n))), narrow,
                     reinterpret_cast<std::uint16_t*>(p + n));
      }
#endif
      for (; n < dim; ++n) p[n] = to_float16(static_cast<float>(src[n]));
      return;
    }
  }
}

template <class T>
void load_rows(const MatrixRef& src, std::int64_t first, std::int64_t rows, std::int64_t dim, T* dst,
               std::ptrdiff_t dst_stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T* target = dst + r * dst_stride;
    load_row(src, first + r, dim, target);
    for (std::int64_t n = dim; n < dst_stride; ++n) target[n] = 0;
  }
}

// Where the 128 bits of row n lie that are wanted: a stride apart, or anywhere.
template <class T>
struct StridedPieces {
  const T* rows;
  std::ptrdiff_t stride;
  RAPT_FN const T* at(int row) const { return rows + row * stride; }
};
template <class T>
struct LanePieces {
  const T* const* rows;
  std::ptrdiff_t first;
  RAPT_FN const T* at(int row) const { return rows[row] + first; }
};

// Pieces of 128 bits of rows first, first + step, first + 2·step … side by side in one vector.
template <class T, class Pieces>
RAPT_FN Vec<T> load_pieces(const Pieces& pieces, int first, int step) {
  const hn::FixedTag<T, 16 / sizeof(T)> piece;
  constexpr int kPieces = kLanes<T> * static_cast<int>(sizeof(T)) / 16;
  if constexpr (kPieces == 1) {
    return hn::LoadU(piece, pieces.at(first));
  } else {
    const hn::FixedTag<T, 32 / sizeof(T)> two;
    const auto low = hn::Combine(two, hn::LoadU(piece, pieces.at(first + step)), hn::LoadU(piece, pieces.at(first)));
    if constexpr (kPieces == 2) {
      return low;
    } else {
      static_assert(kPieces == 4);
      const auto high = hn::Combine(two, hn::LoadU(piece, pieces.at(first + 3 * step)),
                                    hn::LoadU(piece, pieces.at(first + 2 * step)));
      return hn::Combine(Tag<T>(), high, low);
    }
  }
}

// The first 128 bits of kLanes rows, transposed: vector n holds number n of each row.
template <class T, class Pieces>
RAPT_FN void load_columns(const Pieces& pieces, Vec<T>* columns) {
  const Tag<T> tag;
  if constexpr (sizeof(T) == 4) {
    const hn::Repartition<double, Tag<T>> pair;
    const Vec<T> a = load_pieces<T>(pieces, 0, 4), b = load_pieces<T>(pieces, 1, 4);
    const Vec<T> c = load_pieces<T>(pieces, 2, 4), d = load_pieces<T>(pieces, 3, 4);
    const auto ab0 = hn::BitCast(pair, hn::InterleaveLower(tag, a, b));
    const auto ab1 = hn::BitCast(pair, hn::InterleaveUpper(tag, a, b));
    const auto cd0 = hn::BitCast(pair, hn::InterleaveLower(tag, c, d));
    const auto cd1 = hn::BitCast(pair, hn::InterleaveUpper(tag, c, d));
    columns[0] = hn::BitCast(tag, hn::InterleaveLower(pair, ab0, cd0));
    columns[1] = hn::BitCast(tag, hn::InterleaveUpper(pair, ab0, cd0));
    columns[2] = hn::BitCast(tag, hn::InterleaveLower(pair, ab1, cd1));
    columns[3] = hn::BitCast(tag, hn::InterleaveUpper(pair, ab1, cd1));
  } else {
    const Vec<T> a = load_pieces<T>(pieces, 0, 2), b = load_pieces<T>(pieces, 1, 2);
    columns[0] = hn::InterleaveLower(tag, a, b);
    columns[1] = hn::InterleaveUpper(tag, a, b);
  }
}

template <class T>
RAPT_FN void load_columns(const T* rows, std::ptrdiff_t stride, Vec<T>* columns) {
  load_columns<T>(StridedPieces<T>{rows, stride}, columns);
}

// dst[c][r] = src[r][c] for r < rows and c < cols, by whole vectors of rows, then by blocks that fit 128-bit registers.
RAPT_FN void transpose_block(const float* src, std::ptrdiff_t src_stride, float* dst, std::ptrdiff_t dst_stride) {
  const hn::FixedTag<float, 4> tag;
  const hn::FixedTag<double, 2> pair;
  const auto a = hn::LoadU(tag, src), b = hn::LoadU(tag, src + src_stride);
  const auto c = hn::LoadU(tag, src + 2 * src_stride), d = hn::LoadU(tag, src + 3 * src_stride);
  const auto ab0 = hn::BitCast(pair, hn::InterleaveLower(tag, a, b)),
             ab1 = hn::BitCast(pair, hn::InterleaveUpper(tag, a, b));
  const auto cd0 = hn::BitCast(pair, hn::InterleaveLower(tag, c, d)),
             cd1 = hn::BitCast(pair, hn::InterleaveUpper(tag, c, d));
  hn::StoreU(hn::BitCast(tag, hn::InterleaveLower(pair, ab0, cd0)), tag, dst);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveUpper(pair, ab0, cd0)), tag, dst + dst_stride);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveLower(pair, ab1, cd1)), tag, dst + 2 * dst_stride);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveUpper(pair, ab1, cd1)), tag, dst + 3 * dst_stride);
}
RAPT_FN void transpose_block(const double* src, std::ptrdiff_t src_stride, double* dst, std::ptrdiff_t dst_stride) {
  const hn::FixedTag<double, 2> tag;
  const auto a = hn::LoadU(tag, src), b = hn::LoadU(tag, src + src_stride);
  hn::StoreU(hn::InterleaveLower(tag, a, b), tag, dst);
  hn::StoreU(hn::InterleaveUpper(tag, a, b), tag, dst + dst_stride);
}

template <class T>
void transpose(const T* src, std::ptrdiff_t src_stride, std::int64_t rows, std::int64_t cols, T* dst,
               std::ptrdiff_t dst_stride) {
  constexpr std::int64_t kBlock = 16 / sizeof(T);
  const Tag<T> tag;
  std::int64_t r = 0;
  for (; r + kLanes<T> <= rows; r += kLanes<T>) {
    std::int64_t c = 0;
    for (; c + kBlock <= cols; c += kBlock) {
      Vec<T> columns[kBlock];
      load_columns<T>(src + r * src_stride + c, src_stride, columns);
#pragma GCC unroll 4
      for (int n = 0; n < kBlock; ++n) hn::StoreU(columns[n], tag, dst + (c + n) * dst_stride + r);
    }
    for (; c < cols; ++c)
      for (std::int64_t n = r; n < r + kLanes<T>; ++n) dst[c * dst_stride + n] = src[n * src_stride + c];
  }
  for (; r + kBlock <= rows; r += kBlock) {
    std::int64_t c = 0;
    for (; c + kBlock <= cols; c += kBlock)
      transpose_block(src + r * src_stride + c, src_stride, dst + c * dst_stride + r, dst_stride);
    for (; c < cols; ++c)
      for (std::int64_t n = r; n < r + kBlock; ++n) dst[c * dst_stride + n] = src[n * src_stride + c];
  }
  for (; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) dst[c * dst_stride + r] = src[r * src_stride + c];
}

struct Add {
  template <class T>
  RAPT_FN T operator()(T to, T from) const {
    if constexpr (std::is_floating_point_v<T>) return to + from;
    else return hn::Add(to, from);
  }
};

// dst[c][r] = join(dst[c][r], src[r][c]), by default their sum. Rows of dst may be the same one.
template <class T, class Join = Add>
void transpose_add(const T* src, std::ptrdiff_t src_stride, std::int64_t rows, std::int64_t cols, T* dst,
                   std::ptrdiff_t dst_stride, Join join = {}) {
  constexpr std::int64_t kBlock = 16 / sizeof(T);
  const Tag<T> tag;
  std::int64_t r = 0;
  for (; r + kLanes<T> <= rows; r += kLanes<T>) {
    std::int64_t c = 0;
    for (; c + kBlock <= cols; c += kBlock) {
      Vec<T> columns[kBlock];
      load_columns<T>(src + r * src_stride + c, src_stride, columns);
#pragma GCC unroll 4
      for (int n = 0; n < kBlock; ++n) {
        T* to = dst + (c + n) * dst_stride + r;
        hn::StoreU(join(hn::LoadU(tag, to), columns[n]), tag, to);
      }
    }
    for (; c < cols; ++c)
      for (std::int64_t n = r; n < r + kLanes<T>; ++n)
        dst[c * dst_stride + n] = join(dst[c * dst_stride + n], src[n * src_stride + c]);
  }
  for (; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      dst[c * dst_stride + r] = join(dst[c * dst_stride + r], src[r * src_stride + c]);
}

// Rows that are read soon and are still in memory come to the L2 cache meanwhile.
template <class T>
RAPT_FN void fetch_rows(const T* first, std::ptrdiff_t stride, std::int64_t rows, std::int64_t dim) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t d = 0; d < dim; d += 64 / sizeof(T)) __builtin_prefetch(first + r * stride + d, 0, 2);
}

template <class T>
RAPT_FN bool all_finite(const T* values, std::int64_t count) {
  const Tag<T> tag;
  Vec<T> sum = hn::Zero(tag);
  std::int64_t n = 0;
  for (; n + kLanes<T> <= count; n += kLanes<T>) sum = hn::MulAdd(hn::LoadU(tag, values + n), hn::Zero(tag), sum);
  T rest = hn::GetLane(hn::SumOfLanes(tag, sum));
  for (; n < count; ++n) rest += values[n] * T(0);
  return rest == T(0);
}

// The same of rows that lie a stride apart.
template <class T>
bool finite_rows(const T* rows, std::ptrdiff_t stride, std::int64_t count, std::int64_t dim) {
  const Tag<T> tag;
  if (stride == dim) {
    dim *= count;
    count = 1;
  }
  Vec<T> sums[4] = {hn::Zero(tag), hn::Zero(tag), hn::Zero(tag), hn::Zero(tag)};
  T rest = 0;
  for (std::int64_t r = 0; r < count; ++r) {
    const T* const row = rows + r * stride;
    std::int64_t d = 0;
    for (; d + 4 * kLanes<T> <= dim; d += 4 * kLanes<T>)
#pragma GCC unroll 4
      for (int n = 0; n < 4; ++n) sums[n] = hn::MulAdd(hn::LoadU(tag, row + d + n * kLanes<T>), hn::Zero(tag), sums[n]);
    for (; d + kLanes<T> <= dim; d += kLanes<T>) sums[0] = hn::MulAdd(hn::LoadU(tag, row + d), hn::Zero(tag), sums[0]);
    for (; d < dim; ++d) rest += row[d] * T(0);
  }
  const Vec<T> sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  return hn::AllTrue(tag, hn::Eq(sum, hn::Zero(tag))) && rest == T(0);
}

// As std::swap, whose inline copy for this target could be linked in place of all others.
template <class P>
RAPT_FN void exchange(P*& a, P*& b) {
  P* const before = a;
  a = b;
  b = before;
}

// Hands out aligned pieces of one block of memory; with a null block it only counts. Under the address sanitizer memory
// between pieces may not be touched.
class Arena {
 public:
  RAPT_FN explicit Arena(char* block) : block_(block) {}
  RAPT_FN ~Arena() { allow(0, used_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  template <class T>
  RAPT_FN T* take(std::int64_t count) {
    T* piece = block_ ? reinterpret_cast<T*>(block_ + used_) : nullptr;
    const auto bytes = static_cast<std::size_t>(round_up(count * static_cast<std::int64_t>(sizeof(T)), 64));
    allow(used_, bytes);
    used_ += bytes;
    forbid(used_, kBetween);
    used_ += kBetween;
    return piece;
  }
  RAPT_FN std::size_t used() const { return used_; }

 private:
#if defined(RAPT_ARENA_CHECKS)
  static constexpr std::size_t kBetween = 64;
  RAPT_FN void allow(std::size_t from, std::size_t bytes) const {
    if (block_) __asan_unpoison_memory_region(block_ + from, bytes);
  }
  RAPT_FN void forbid(std::size_t from, std::size_t bytes) const {
    if (block_) __asan_poison_memory_region(block_ + from, bytes);
  }
#else
  static constexpr std::size_t kBetween = 0;
  RAPT_FN void allow(std::size_t, std::size_t) const {}
  RAPT_FN void forbid(std::size_t, std::size_t) const {}
#endif

  char* block_;
  std::size_t used_ = 0;
};

}  // namespace rapt::inline v1::RAPT_TARGET
