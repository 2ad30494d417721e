#include <string>
#include <vector>

#include "normalizers/definition.h"
#include "rapt/error.h"

namespace rapt::inline v1 {

std::span<const NormalizerInfo> all_normalizers() {
  // Never destroyed: main may return while another thread computes.
  static const auto& infos = *new const auto([] {
    std::vector<NormalizerInfo> list;
    for (const NormalizerDefinition& definition : normalizer_definitions()) list.push_back(definition.info);
    return list;
  }());
  return infos;
}

const NormalizerInfo& info_of(Normalizer normalizer) { return definition_of(normalizer).info; }

Normalizer normalizer(std::string_view name) {
  std::string known;
  const auto definitions = normalizer_definitions();
  for (std::size_t n = 0; n < definitions.size(); ++n) {
    if (definitions[n].info.name == name) return static_cast<Normalizer>(n);
    known.append(known.empty() ? "" : ", ").append(definitions[n].info.name);
  }
  throw Error("normalizer: expected one of " + known + ", got '" + std::string(name) + "'");
}

}  // namespace rapt::inline v1
