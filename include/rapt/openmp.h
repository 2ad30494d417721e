#pragma once

#include <string_view>

#include "rapt/api.h"

namespace rapt::inline v1 {

// Lends Rapt the threads of an OpenMP runtime that the process has already loaded (GCC's, LLVM's or Intel's),
// preferably one from `folder`. False, changing nothing, if there is none. rapt::use_host_threads(nullptr) ends it.
RAPT_API bool use_openmp_threads(std::string_view folder = {});

}  // namespace rapt::inline v1
