#pragma once

#include <type_traits>

#include "backends/cuda/factorized/axes.h"

// Products along an axis of a grid of vectors. A fiber is a line along the axis, of four numbers of the vectors at one
// place of the other axis; a thread computes 16 places of a fiber at a time, or 8.
namespace rapt::inline v1::cuda::factorized {

inline constexpr int kMostThreads = 256;

RAPT_DEVICE bool is_finite(float4 x) {
  // Any number that is not finite makes the sum of products with 0 a NaN.
  const float zero = 0.f * x.x + 0.f * x.y + 0.f * x.z + 0.f * x.w;
  return zero == 0;
}

RAPT_DEVICE void add_to(float4& sum, float4 x) {
  sum.x += x.x;
  sum.y += x.y;
  sum.z += x.z;
  sum.w += x.w;
}

RAPT_DEVICE float to_float(float x) { return x; }
RAPT_DEVICE float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
RAPT_DEVICE float to_float(__half x) { return __half2float(x); }

RAPT_DEVICE float4 load_four(const float* p) { return __ldg(reinterpret_cast<const float4*>(p)); }
RAPT_DEVICE float4 load_four(const __nv_bfloat16* p) {
  const uint2 x = __ldg(reinterpret_cast<const uint2*>(p));
  return make_float4(__uint_as_float(x.x << 16), __uint_as_float(x.x & 0xffff0000u), __uint_as_float(x.y << 16),
                     __uint_as_float(x.y & 0xffff0000u));
}
RAPT_DEVICE float4 load_four(const __half* p) {
  const uint2 x = __ldg(reinterpret_cast<const uint2*>(p));
  const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&x.x)),
               high = __half22float2(*reinterpret_cast<const __half2*>(&x.y));
  return make_float4(low.x, low.y, high.x, high.y);
}

// Whether four numbers of every row, from a multiple of four on, are a vector in memory.
inline bool has_vectors(const Array& a) {
  const std::int64_t bytes = a.dtype == Dtype::f32 ? 16 : 8;
  return reinterpret_cast<std::uintptr_t>(a.data) % static_cast<std::uintptr_t>(bytes) == 0 && a.row_stride % 4 == 0 &&
         a.head_stride % 4 == 0 && a.batch_stride % 4 == 0;
}

// Four numbers of a vector in memory, from p on; of the last only `left` are there, and 0 stands for the others.
template <class T>
RAPT_DEVICE float4 load_some(const T* p, int left) {
  return make_float4(left > 0 ? to_float(p[0]) : 0.f, left > 1 ? to_float(p[1]) : 0.f, left > 2 ? to_float(p[2]) : 0.f,
                     left > 3 ? to_float(p[3]) : 0.f);
}

// The grid of vectors of one batch and head, in memory.
template <class T>
struct Source {
  const T* data;
  std::int64_t row_stride;
  int dim;
  bool vectors;

  RAPT_DEVICE Source(const Array& a, bool has_vectors, int b, int h)
      : data(static_cast<const T*>(a.data) + a.offset(b, h)),
        row_stride(a.row_stride),
        dim(a.dim),
        vectors(has_vectors) {}
  RAPT_DEVICE float4 at(int place, int d) const {
    const T* p = data + place * row_stride + d;
    return vectors && d + 4 <= dim ? load_four(p) : load_some(p, dim - d);
  }
  // The places first, first + step, …, as a function of their count: f(load). Two kinds, so that a loop has no branch.
  template <class F>
  RAPT_DEVICE void along(int first, int step, int d, const F& f) const {
    const T* p = data + first * row_stride + d;
    const std::int64_t stride = step * row_stride;
    const int left = dim - d;
    if (vectors && left >= 4) f([=](int k) { return load_four(p + k * stride); });
    else f([=](int k) { return load_some(p + k * stride, left); });
  }
};

RAPT_DEVICE void store_four(float* p, float4 x) { *reinterpret_cast<float4*>(p) = x; }
RAPT_DEVICE void store_four(__nv_bfloat16* p, float4 x) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(x.x, x.y), high = __floats2bfloat162_rn(x.z, x.w);
  *reinterpret_cast<uint2*>(p) =
      make_uint2(*reinterpret_cast<const unsigned*>(&low), *reinterpret_cast<const unsigned*>(&high));
}
RAPT_DEVICE void store_four(__half* p, float4 x) {
  const __half2 low = __floats2half2_rn(x.x, x.y), high = __floats2half2_rn(x.z, x.w);
  *reinterpret_cast<uint2*>(p) =
      make_uint2(*reinterpret_cast<const unsigned*>(&low), *reinterpret_cast<const unsigned*>(&high));
}
RAPT_DEVICE void set_number(float* p, float x) { *p = x; }
RAPT_DEVICE void set_number(__nv_bfloat16* p, float x) { *p = __float2bfloat16(x); }
RAPT_DEVICE void set_number(__half* p, float x) { *p = __float2half(x); }

template <class T>
RAPT_DEVICE void store_some(T* p, int left, float4 x) {
  if (left > 0) set_number(p, x.x);
  if (left > 1) set_number(p + 1, x.y);
  if (left > 2) set_number(p + 2, x.z);
  if (left > 3) set_number(p + 3, x.w);
}

// The numbers of a fiber from p on, `stride` apart: the first `count` of them. False: one is not finite.
template <class T, int kCount>
RAPT_DEVICE bool store_fiber(T* p, std::int64_t stride, bool vectors, int left, int count, const float4 (&x)[kCount]) {
  bool finite = true;
#pragma unroll
  for (int m = 0; m < kCount; ++m)
    if (m < count) {
      finite = finite && is_finite(x[m]);
      if (vectors && left >= 4) store_four(p + m * stride, x[m]);
      else store_some(p + m * stride, left, x[m]);
    }
  return finite;
}

// acc[m] += Σ_k a[k][m]·x(k).
template <int kCount, class X>
RAPT_DEVICE void add_products(float4 (&acc)[kCount], const float* a, int pitch, int size, const X& x) {
#pragma unroll 2
  for (int k = 0; k < size; ++k) {
    const float4 y = x(k);
    const float4* line = reinterpret_cast<const float4*>(a + k * pitch);
#pragma unroll
    for (int m = 0; m < kCount / 4; ++m) {
      const float4 w = line[m];
      const float ws[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float4& sum = acc[4 * m + e];
        sum.x = fmaf(ws[e], y.x, sum.x);
        sum.y = fmaf(ws[e], y.y, sum.y);
        sum.z = fmaf(ws[e], y.z, sum.z);
        sum.w = fmaf(ws[e], y.w, sum.w);
      }
    }
  }
}

// work(first, kCount) for the numbers [first, first + kCount) of an axis; the last may stick out by less than 8.
template <class F>
RAPT_DEVICE void with_count(int size, int first, const F& work) {
  if (size - first > kFiber / 2) work(std::integral_constant<int, kFiber>{});
  else work(std::integral_constant<int, kFiber / 2>{});
}
__host__ __device__ inline int fiber_tiles(int size) { return (size + kFiber - 1) / kFiber; }

// The vectors of a grid in shared memory, some numbers of each: [rows][stride], in each row [cols][pitch].
struct Tile {
  float* data;
  int pitch, stride;

  RAPT_DEVICE float4& at(int r, int c, int quad) const {
    return *reinterpret_cast<float4*>(data + r * stride + c * pitch + 4 * quad);
  }
};

// How a grid's vectors are cut for shared memory.
struct Cut {
  std::int32_t width = 0;  // numbers of a vector at a time, a multiple of 4; 0: not even the fewest fit
  std::int32_t count = 1;  // so many times
  std::int32_t pitch = 0, stride = 0;
  std::int32_t bytes = 0;  // of shared memory, with one matrix of each axis

  RAPT_DEVICE int quads() const { return width / 4; }
};
// `tiles` of them at a time. Rows and columns of a tile meet in products of each with each: none in the same banks.
inline Cut cut_for(const Axis& row, const Axis& col, int dim, int tiles) {
  constexpr int kWidest = 32;
  struct Limit {
    int bytes, least;
  };
  // Three blocks a multiprocessor, two, one.
  constexpr Limit kLimits[] = {{75 << 10, 16}, {112 << 10, 16}, {226 << 10, 4}};
  const std::int64_t matrices = row.matrix() + col.matrix();
  for (const Limit& limit : kLimits)
    for (int width = kWidest; width >= limit.least; width -= 4) {
      Cut cut;
      cut.count = (dim + width - 1) / width;
      cut.width = ((dim + cut.count - 1) / cut.count + 3) / 4 * 4;
      cut.pitch = tiles > 1 && cut.width / 4 % 2 == 0 ? cut.width + 4 : cut.width;
      const std::int64_t line = static_cast<std::int64_t>(col.size) * cut.pitch;
      const std::int64_t stride =
          tiles > 1 ? line + (line / 4 % 2 == 0 ? 4 : 0) : line + (cut.width - line % 32 + 32) % 32;
      const std::int64_t bytes = 4 * (matrices + tiles * row.size * stride);
      if (bytes > limit.bytes) continue;
      cut.stride = static_cast<std::int32_t>(stride);
      cut.bytes = static_cast<std::int32_t>(bytes);
      return cut;
    }
  return {};
}

RAPT_DEVICE void copy_matrix(float* to, const float* from, std::int64_t count) {
  for (std::int64_t n = threadIdx.x; n < count / 4; n += blockDim.x)
    reinterpret_cast<float4*>(to)[n] = __ldg(reinterpret_cast<const float4*>(from) + n);
}

template <class Kernel>
void allow_bytes(Kernel kernel, int bytes) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory");
}

}  // namespace rapt::inline v1::cuda::factorized
