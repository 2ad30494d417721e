#pragma once

#include "attend/backend.h"

namespace rapt::inline v1 {

// GPUs of compute capability 9.0. In a build without CUDA it takes no call, and says so.
const Backend& cuda_backend();

}  // namespace rapt::inline v1
