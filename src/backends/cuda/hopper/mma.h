#pragma once

#include "backends/cuda/hopper/sm90.h"

// The products of one warp: 16 rows × 8 columns over 16 numbers, operands in registers.
namespace rapt::inline v1::cuda {

// Four matrices of 8 × 8 numbers; lane 8m + n gives the address of row n of matrix m. A lane gets, of each, the row lane/4
// and the columns 2·(lane%4) + {0, 1}.
RAPT_DEVICE void load_matrices(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// The same, transposed: the column lane/4 and the rows 2·(lane%4) + {0, 1}.
RAPT_DEVICE void load_transposed(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// sum[0 … 3] += left·right. sum: rows lane/4 and + 8, columns 2·(lane%4) + {0, 1}.
RAPT_DEVICE void multiply_add(float* sum, const std::uint32_t (&left)[4], std::uint32_t low, std::uint32_t high, Bf16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(low), "r"(high));
}
RAPT_DEVICE void multiply_add(float* sum, const std::uint32_t (&left)[4], std::uint32_t low, std::uint32_t high, F16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(low), "r"(high));
}

// The smaller one; NaN stays.
RAPT_DEVICE float smaller(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// A kernel started early waits here for the one before it; that one says when the next may start.
RAPT_DEVICE void await_kernel_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
RAPT_DEVICE void allow_kernel_after() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace rapt::inline v1::cuda
