#pragma once

#include <span>

#include "rapt/mechanism.h"

namespace rapt {

struct RegistryEntry {
  const MechanismInfo* info;
  const void* object;  // the hooks, default-constructed once
};

// One for each line of registry.txt, in that order. Defined in the build tree.
std::span<const RegistryEntry> registry_entries();

// The hooks object of a mechanism of the registry; null for a mechanism of the caller's own, whose object is in
// Score::object.
const void* default_object(const MechanismInfo& info);

}  // namespace rapt
