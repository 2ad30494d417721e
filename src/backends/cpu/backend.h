#pragma once

#include "attend/backend.h"

namespace rapt::inline v1 {

// Fused and threaded, on the processor's vectors.
const Backend& cpu_backend();

}  // namespace rapt::inline v1
