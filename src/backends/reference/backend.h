#pragma once

#include "attend/backend.h"

namespace rapt::inline v1 {

// The naive path, which stores every matrix: what the others are held to.
const Backend& reference_backend();

}  // namespace rapt::inline v1
