#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/api.h"
#include "rapt/hooks.h"
#include "rapt/view.h"

// Mechanisms at run time: their properties, and a mechanism with its parameters as a score.
namespace rapt::inline v1 {

struct MechanismDefinition;

// A mechanism of the registry (registry.h) or of the caller (custom.h), identified by its address.
class MechanismInfo {
 public:
  explicit MechanismInfo(const MechanismDefinition& definition) : definition_(definition) {}
  MechanismInfo(const MechanismInfo&) = delete;
  MechanismInfo& operator=(const MechanismInfo&) = delete;

  RAPT_API std::string_view name() const;
  RAPT_API std::string_view formula() const;
  RAPT_API std::span<const ParameterSpec> parameters() const;
  RAPT_API std::span<const SettingSpec> settings() const;
  RAPT_API bool scaled() const;           // the scale is 1/√Dk unless the caller sets it
  RAPT_API bool grid() const;             // positions form a grid of rows and columns
  RAPT_API bool unit_rows() const;        // q and k are normalised to unit length
  RAPT_API bool reads_positions() const;  // score or visibility may depend on the positions
  RAPT_API bool has_form() const;         // the score is a quadratic form of the grid offset

  // What the engine runs. Complete in tiles.h only.
  const MechanismDefinition& definition() const { return definition_; }

 private:
  const MechanismDefinition& definition_;
};

struct NamedView {
  std::string name{};
  ConstView value{};
};

struct NamedNumber {
  std::string name{};
  double value = 0;
};

// A mechanism with its parameters: what `attend` scores with.
struct Score {
  const MechanismInfo* mechanism = nullptr;  // null: scaled_dot
  std::vector<NamedView> parameters{};
  std::vector<NamedNumber> settings{};
  std::array<std::int64_t, 2> grid{};    // rows, columns
  std::shared_ptr<const void> object{};  // the hooks' state, if they have any; see custom.h
};

}  // namespace rapt::inline v1
