#pragma once

#include "attend/backend.h"

namespace rapt::inline v1 {

// The naive path, which stores every matrix: the others are compared with it.
const Backend& reference_backend();

}  // namespace rapt::inline v1
