#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "rapt/dtype.h"

// Arrays in device memory, as kernels see them.
#define RAPT_DEVICE __device__ __forceinline__

namespace rapt::inline v1::cuda {

// A [batches, heads, rows, dim] array of any storage type; see Operand.
struct Array {
  void* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::int32_t batches = 1;  // 1: shared by all
  std::int32_t group = 1;    // heads of the problem that share one of these
  std::int32_t dim = 1;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;

  __host__ __device__ std::int64_t offset(int b, int h) const {
    return (batches == 1 ? 0 : b) * batch_stride + h / group * head_stride;
  }
};

// Rows of 16-bit numbers, aligned for the copy engine and for 16-byte loads and stores.
inline bool is_aligned(const Array& a) {
  return reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0 && a.row_stride % 8 == 0 && a.head_stride % 8 == 0 &&
         a.batch_stride % 8 == 0 && a.dim % 8 == 0;
}

RAPT_DEVICE float load(const void* data, Dtype dtype, std::int64_t n) {
  switch (dtype) {
    case Dtype::f32: return static_cast<const float*>(data)[n];
    case Dtype::bf16: return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[n]);
    case Dtype::f16: return __half2float(static_cast<const __half*>(data)[n]);
    case Dtype::f64: return static_cast<float>(static_cast<const double*>(data)[n]);
  }
  return 0;
}

RAPT_DEVICE void store(void* data, Dtype dtype, std::int64_t n, float x) {
  switch (dtype) {
    case Dtype::f32: static_cast<float*>(data)[n] = x; return;
    case Dtype::bf16: static_cast<__nv_bfloat16*>(data)[n] = __float2bfloat16(x); return;
    case Dtype::f16: static_cast<__half*>(data)[n] = __float2half(x); return;
    case Dtype::f64: static_cast<double*>(data)[n] = x; return;
  }
}

RAPT_DEVICE float load(const Array& a, std::int64_t n) { return load(a.data, a.dtype, n); }
RAPT_DEVICE void store(const Array& a, std::int64_t n, float x) { store(a.data, a.dtype, n, x); }

}  // namespace rapt::inline v1::cuda
