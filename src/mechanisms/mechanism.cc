#include "rapt/mechanism.h"

#include "rapt/tiles.h"

namespace rapt::inline v1 {

std::string_view MechanismInfo::name() const { return definition_.name; }
std::string_view MechanismInfo::formula() const { return definition_.formula; }
std::span<const ParameterSpec> MechanismInfo::parameters() const { return definition_.parameters; }
std::span<const SettingSpec> MechanismInfo::settings() const { return definition_.settings; }
bool MechanismInfo::scaled() const { return definition_.scaled; }
bool MechanismInfo::grid() const { return definition_.grid; }
bool MechanismInfo::unit_rows() const { return definition_.unit_rows; }
bool MechanismInfo::has_form() const { return definition_.form != nullptr; }

bool MechanismInfo::reads_positions() const {
  // A hook may read positions; only scores without hooks are known not to.
  const MechanismDefinition& d = definition_;
  return d.grid || d.has_index || d.scalar.f32.score || d.scalar.f32.hide;
}

}  // namespace rapt::inline v1
