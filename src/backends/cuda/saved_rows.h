#pragma once

#include "attend/problem.h"
#include "backends/cuda/call.h"

namespace rapt::inline v1::cuda {

// The device memory of Saved: allocated when it is too small for its rows.
RowStatistics device_rows(Saved::Rows& rows);
RowStatistics device_rows(const Saved::Rows& rows);

}  // namespace rapt::inline v1::cuda
