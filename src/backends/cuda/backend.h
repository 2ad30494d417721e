#pragma once

#include "attend/backend.h"

namespace rapt::inline v1 {

// GPUs of compute capability 9.0. In a build without CUDA it refuses every call, and says why.
const Backend& cuda_backend();

}  // namespace rapt::inline v1
