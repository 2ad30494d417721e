#pragma once

#include <span>
#include <string_view>

#include "rapt/mechanism.h"

namespace rapt {

// Every mechanism of src/mechanisms/registry.txt, in that order.
std::span<const MechanismInfo* const> all_mechanisms();

// Throws rapt::Error, naming the known ones, when there is none of that name.
const MechanismInfo& mechanism(std::string_view name);

}  // namespace rapt
