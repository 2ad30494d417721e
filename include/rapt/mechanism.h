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

// Mechanisms at run time: what can be asked about one, and one with its parameters as a score.
namespace rapt::inline v1 {

struct MechanismDefinition;

// A mechanism of the registry (registry.h) or of the caller's own (custom.h). Its address is what identifies it.
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
  RAPT_API bool grid() const;             // positions lie on a grid of rows and columns
  RAPT_API bool unit_rows() const;        // q and k are divided by their lengths
  RAPT_API bool reads_positions() const;  // the score or the visibility may depend on where query and key are
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
  std::shared_ptr<const void> object{};  // the hooks' own state, when they have any; see custom.h
};

}  // namespace rapt::inline v1
