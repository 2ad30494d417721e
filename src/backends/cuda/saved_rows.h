#pragma once

#include "attend/problem.h"
#include "backends/cuda/call.h"

namespace rapt::inline v1::cuda {

// The device memory of Saved, reallocated when it is too small. With room for what rounding takes from an output of
// `remainder_dim` numbers a row; 0: none.
RowStatistics device_rows(Saved::Rows& rows, std::int64_t remainder_dim);
// Null: not kept.
void* device_remainder(const Saved::Rows& rows);
// The remainder is not kept after all; memory with room for one, whose reader may not know, is filled with NaN.
void forget_remainder(Saved::Rows& rows, cudaStream_t stream);
RowStatistics device_rows(const Saved::Rows& rows);

}  // namespace rapt::inline v1::cuda
