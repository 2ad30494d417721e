#pragma once

#include "attend/problem.h"
#include "backends/cuda/call.h"

namespace rapt::inline v1::cuda {

// The device memory of Saved: allocated when it is too small for its rows.
// With room for what rounding takes from an output of `remainder_dim` numbers a row; 0: none.
RowStatistics device_rows(Saved::Rows& rows, std::int64_t remainder_dim);
// Null: not kept.
void* device_remainder(const Saved::Rows& rows);
// The remainder is not kept after all. In memory that has room for one, where a reader may not know, it becomes NaN.
void forget_remainder(Saved::Rows& rows, cudaStream_t stream);
RowStatistics device_rows(const Saved::Rows& rows);

}  // namespace rapt::inline v1::cuda
