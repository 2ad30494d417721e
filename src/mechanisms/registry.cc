#include "rapt/registry.h"

#include <string>
#include <vector>

#include "mechanisms/objects.h"
#include "rapt/error.h"

namespace rapt::inline v1 {

std::span<const MechanismInfo* const> all_mechanisms() {
  // Never destroyed: main may return while another thread computes.
  static const auto& infos = *new const auto([] {
    std::vector<const MechanismInfo*> list;
    for (const RegistryEntry* entry : registry_entries()) list.push_back(entry->info);
    return list;
  }());
  return infos;
}

const MechanismInfo& mechanism(std::string_view name) {
  std::string known;
  for (const MechanismInfo* info : all_mechanisms()) {
    if (info->name() == name) return *info;
    known.append(known.empty() ? "" : ", ").append(info->name());
  }
  throw Error("mechanism: expected one of " + known + ", got '" + std::string(name) + "'");
}

}  // namespace rapt::inline v1
