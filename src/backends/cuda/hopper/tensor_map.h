#pragma once

#include <cuda.h>

#include "backends/cuda/array.h"

namespace rapt::inline v1::cuda::hopper {

// For copies of 64 columns × box_rows; what lies past the end reads as zeros. False: the driver refuses the array.
bool make_map(CUtensorMap* map, const Array& array, int heads, int rows, int box_rows);

}  // namespace rapt::inline v1::cuda::hopper
