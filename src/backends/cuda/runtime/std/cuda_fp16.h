#pragma once

struct __half {
  unsigned short bits;
};

__device__ __forceinline__ float __half2float(__half x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

__device__ __forceinline__ __half __float2half(float x) {
  __half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
