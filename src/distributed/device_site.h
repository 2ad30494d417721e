#pragma once

#include "distributed/site.h"

namespace rapt::inline v1::distributed {

// Throws if the library is built without CUDA.
std::unique_ptr<Site> device_site(const Device& device, void* stream);

}  // namespace rapt::inline v1::distributed
