#pragma once

#include <span>
#include <string_view>

#include "rapt/api.h"
#include "rapt/mechanism.h"

namespace rapt::inline v1 {

// Every mechanism of src/mechanisms/registry.txt, in that order.
RAPT_API std::span<const MechanismInfo* const> all_mechanisms();

// Throws rapt::Error, listing the known names, if there is none of that name.
RAPT_API const MechanismInfo& mechanism(std::string_view name);

}  // namespace rapt::inline v1
