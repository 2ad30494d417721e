#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "mechanisms/call_ranges.h"
#include "rapt/mechanism.h"
#include "rapt/threads.h"
#include "rapt/tiles.h"

namespace rapt::inline v1 {

inline constexpr std::size_t kIsas = 4;

struct DeviceHooks;

// A mechanism of the registry.
struct RegistryEntry {
  const MechanismInfo* info = nullptr;
  const void* object = nullptr;  // the hooks, default-constructed once
  std::array<const Programs*, kIsas>
      programs{};  // of each SIMD target; null: not in this build, or not for this processor
  // The hooks as source, where they are text; null: they were compiled with the library.
  const DeviceHooks& (*device_hooks)(const void* object, bool offsets_seen) = nullptr;
  bool reads_keys = false;  // of a formula: it names how many keys there are
  // Of a formula: the index or comparison that rounding would change in such a call; empty: none. Null: not checked.
  std::string (*inexact)(const void* object, const CallRanges& call) = nullptr;
  // The range of indices at which it may read that table in such a call.
  std::array<NumberRange, 2> (*table_reads)(const void* object, const CallRanges& call, int table) = nullptr;
};

// One per line of registry.txt, in that order. Defined in the build tree.
std::span<const RegistryEntry* const> registry_entries();

// The hooks object of a mechanism of the registry; null for a mechanism of the caller's own, whose object is in
// Score::object.
inline const void* default_object(const MechanismInfo& info) {
  const RegistryEntry* entry = info.definition().entry;
  return entry ? entry->object : nullptr;
}

// The hooks compiled for that target; null for a mechanism of the caller's own.
inline const Programs* programs_for(const MechanismInfo& info, Isa isa) {
  const RegistryEntry* entry = info.definition().entry;
  return entry ? entry->programs[static_cast<std::size_t>(isa)] : nullptr;
}

}  // namespace rapt::inline v1
