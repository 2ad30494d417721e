#pragma once

struct __nv_bfloat16 {
  unsigned short bits;
};

__device__ __forceinline__ float __bfloat162float(__nv_bfloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

__device__ __forceinline__ __nv_bfloat16 __float2bfloat16(float x) {
  __nv_bfloat16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
