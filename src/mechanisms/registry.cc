#include "rapt/registry.h"

#include <string>
#include <vector>

#include "mechanisms/objects.h"
#include "rapt/error.h"

namespace rapt {

std::span<const MechanismInfo* const> all_mechanisms() {
  static const auto infos = [] {
    std::vector<const MechanismInfo*> list;
    for (const RegistryEntry& entry : registry_entries()) list.push_back(entry.info);
    return list;
  }();
  return infos;
}

const MechanismInfo& mechanism(std::string_view name) {
  std::string known;
  for (const RegistryEntry& entry : registry_entries()) {
    if (entry.info->name == name) return *entry.info;
    known.append(known.empty() ? "" : ", ").append(entry.info->name);
  }
  throw Error("mechanism: no mechanism is called '" + std::string(name) + "'; there are " + known);
}

const void* default_object(const MechanismInfo& info) {
  for (const RegistryEntry& entry : registry_entries())
    if (entry.info == &info) return entry.object;
  return nullptr;
}

}  // namespace rapt
