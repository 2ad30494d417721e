#pragma once

#include <cstdint>

#include "rapt/api.h"

// Kernels of a program's own mechanisms.
namespace rapt::inline v1 {

class MechanismInfo;

namespace cuda {

struct Programs;

// `layout` is programs_layout() as the kernels were compiled. Both arguments must outlive every call with the
// mechanism.
RAPT_API void add_programs(const MechanismInfo& mechanism, const Programs& programs, std::uint64_t layout);

// Null if none were added.
const Programs* added_programs(const MechanismInfo& mechanism);

}  // namespace cuda
}  // namespace rapt::inline v1
