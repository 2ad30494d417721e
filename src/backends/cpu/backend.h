#pragma once

#include "attend/backend.h"

namespace rapt::inline v1 {

// Fused, threaded and vectorised.
const Backend& cpu_backend();

}  // namespace rapt::inline v1
