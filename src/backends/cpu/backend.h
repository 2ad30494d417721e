#pragma once

#include "attend/backend.h"

namespace rapt {

// Fused and threaded, on the processor's vectors.
const Backend& cpu_backend();

}  // namespace rapt
